"""`evigraph run --dry-run` against a server whose tokens are words, compared with the predicted run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from cli.running.dry_run import _notes, _print
from runs.estimate.estimate import Estimate
from runs.record.manifest import BudgetCaps
from serving.protocol.budget import Price
from serving.requests.dry_run import Tally
from tests.evigraph import Ended, evigraph, write_cases, write_recipe
from tests.serving.fake_server import FakeServer, Obey

BATCH = Path(str(resources.files("cases").joinpath("samples", "batch.xml")))
MODEL = "test-model"


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    server = FakeServer(models={"data": [{"id": MODEL, "max_model_len": 100_000}]}, default=Obey())
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dry-run")
    write_recipe(folder)
    (folder / "prices.yaml").write_text(f'models: {{"vllm:{MODEL}": {{input: 2, output: 10}}}}\n')
    return folder


@pytest.fixture(scope="module")
def dry(folder: Path, server: FakeServer) -> dict[str, Any]:
    """The sample cases, with prices and both budgets, and what the server and the folder saw of it."""
    before = set(folder.iterdir())
    ended = dry_run(
        *(folder, server, BATCH, "--json", "--prices", "prices.yaml"),
        *("--max-tokens-total", "40000", "--max-cost", "100", "--out", "never"),
    )
    assert ended.code == 0, ended.err
    return ended.summary | {"asked": len(server.chats), "new_files": set(folder.iterdir()) - before}


def dry_run(folder: Path, server: FakeServer, cases: Path, *more: str) -> Ended:
    return run(folder, f"vllm:{MODEL}@{server.url}", cases, "--dry-run", *more)


def run(folder: Path, model: str, cases: Path, *more: str) -> Ended:
    return evigraph("run", "tamu", cases, "--model", model, "--recipe", "lexical.yaml", *more, folder=folder)


def test_no_model_is_asked_and_no_folder_made(dry: dict[str, Any]) -> None:
    assert (dry["asked"], dry["new_files"]) == (0, set())


def test_the_count_is_that_of_the_run(dry: dict[str, Any], folder: Path, server: FakeServer) -> None:
    real = run(folder, f"vllm:{MODEL}@{server.url}", BATCH, "--json", "--no-probe", "--out", "real").summary
    assert dry["calls"] == real["calls"]
    assert dry["requests"] == len(server.chats)
    counted = dry["input_tokens"] + dry["output_tokens"]
    assert counted == pytest.approx(real["input_tokens"] + real["output_tokens"], rel=0.02)


def test_prompts_counted_by_the_servers_tokenizer_are_called_exact(dry: dict[str, Any]) -> None:
    assert (dry["input_tokens_are"], dry["output_tokens_are"]) == ("exact", "assumed")


def test_the_roles_add_up(dry: dict[str, Any]) -> None:
    assert {role: part["calls"] for role, part in dry["roles"].items()} == {
        "classify": 12,
        "label": 36,
        "reflect": 36,
        "answer": 12,
    }
    assert dry["roles"]["label"]["requests"] == 12
    assert sum(part["input_tokens"] for part in dry["roles"].values()) == dry["input_tokens"]


def test_the_cost_is_that_of_all_tokens(dry: dict[str, Any]) -> None:
    assert dry["cost"] == pytest.approx((2 * dry["input_tokens"] + 10 * dry["output_tokens"]) / 1e6)


def test_a_budget_that_is_too_small_says_where_it_would_stop(dry: dict[str, Any]) -> None:
    a_case = (dry["input_tokens"] + dry["output_tokens"]) / 12
    assert dry["budget"]["cases_within_tokens"] == int(40_000 / a_case) < 12
    assert dry["budget"]["cases_within_cost"] == 12


def test_corrections_are_not_counted_but_bounded(dry: dict[str, Any]) -> None:
    correction = dry["answer_corrections"]
    assert (correction["counted"], correction["most"], correction["output_tokens"]) == (False, 12, 256)
    assert correction["input_tokens"] > dry["roles"]["answer"]["input_tokens"] / 12 + 256


def test_a_limit_is_scaled_to_the_whole_input(folder: Path, server: FakeServer) -> None:
    summary = dry_run(folder, server, BATCH, "--limit", "3", "--json").summary
    assert (summary["cases"], summary["estimated"], summary["calls"]) == (3, 3, 24)
    whole = summary["whole_input"]
    assert (whole["cases"], whole["calls"]) == (12, 96)
    assert whole["input_tokens"] == 4 * summary["input_tokens"]


def test_thinking_is_assumed_by_effort_and_counted_apart(folder: Path) -> None:
    def foretold(*more: str) -> Ended:
        given = ("--dry-run", "--limit", "2", "--allow-hosted", *more)
        model = ("--model", "openai:gpt-5.1", "--recipe", "lexical.yaml")
        key = {"OPENAI_API_KEY": "a-key"}
        return evigraph("run", "tamu", BATCH, *model, *given, folder=folder, environment=key)

    off, high = (foretold("--json", "--effort", effort).summary for effort in ("off", "high"))
    assert "thinking_tokens" not in off | off["whole_input"]
    assert off["roles"]["label"]["sent"].startswith("max_tokens 320, temperature 0.7, effort off, ")
    assert high["roles"]["label"]["sent"].startswith("max_tokens 16,320, temperature 0.7, effort high, ")
    assert high["thinking_tokens"] == 2_000 * high["calls"]
    assert high["output_tokens"] == off["output_tokens"]
    assert high["whole_input"]["thinking_tokens"] == 6 * high["thinking_tokens"]
    shown = " ".join(foretold("--effort", "high").out.split())
    assert f"written, {6 * high['thinking_tokens']:,} of thinking on top" in shown


def test_without_a_tokenizer_it_says_that_it_estimates(folder: Path) -> None:
    ended = run(folder, "scripted:auto", BATCH, "--dry-run", "--limit", "2")
    assert ended.code == 0
    assert "an estimate: 4 characters a token" in " ".join(ended.out.split())
    assert "no model was asked, no run folder was made" in ended.out


def test_cases_that_would_fail_are_told_and_counted(folder: Path, server: FakeServer) -> None:
    cases = write_cases(folder / "cases.jsonl", 2)
    with cases.open("a") as file:
        file.write(json.dumps({"case_id": "long", "question": "q?", "sentences": ["a " * 200_000]}) + "\n")
        file.write(json.dumps({"case_id": "empty", "question": "q?", "sentences": []}) + "\n")
    ended = dry_run(folder, server, cases, "--json")
    assert ended.code == 1
    assert ended.summary["errors"] == {"context_length": 1, "invalid_input": 1}
    assert "case long would fail: context_length" in ended.err


def test_what_is_wrong_ends_it_as_it_ends_a_run(folder: Path, server: FakeServer) -> None:
    ended = run(folder, f"vllm:unknown@{server.url}", BATCH, "--dry-run")
    assert ended.code == 0
    assert "does not list 'unknown'" in ended.err


@pytest.mark.parametrize("aligned", ["clinician", "generated"])
def test_questions_and_alignments_are_counted_as_in_a_run(
    folder: Path, server: FakeServer, aligned: str
) -> None:
    recipe = (folder / "lexical.yaml").read_text()
    recipe += f"question: {{interpret: always}}\nalignment: {{answer: {aligned}}}\n"
    (folder / "subtasks.yaml").write_text(recipe)
    command = ("run", "tamu", BATCH, "--model", f"vllm:{MODEL}@{server.url}", "--recipe", "subtasks.yaml")
    dry = evigraph(*command, "--dry-run", "--json", folder=folder).summary
    real = evigraph(*command, "--json", "--no-probe", "--out", f"real-{aligned}", folder=folder).summary
    assert dry["roles"]["answer"]["calls"] == 36
    assert dry["calls"] == real["calls"]
    read = dry["input_tokens"] + dry["output_tokens"]
    assert read == pytest.approx(real["input_tokens"] + real["output_tokens"], rel=0.02)
    # Only answers are sent back by a rule that the estimate tells of.
    assert dry["answer_corrections"]["most"] == 12


def test_prices_batches_and_budgets_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    estimate = Estimate(
        system="tamu",
        cases=3,
        input_cases=12,
        ended=3,
        failed=Counter(),
        models={"answer": "openai:x", "label": "openai:y"},
        priced_as={"answer": "openai:x", "label": "openai:y"},
        tallies={"answer": Tally(6, 3, 1, 1_000_000, 500_000), "label": Tally(3, 1)},
        budget=BudgetCaps(max_tokens=4_500_000, prices={"openai:x": Price(input=2, output=10)}),
        batched=frozenset({"answer"}),
        price_share=0.5,
        hours=24,
    )
    notes = dict(_notes(estimate))
    assert notes["hours"].startswith("at most 24 for each round of batches")
    assert notes["online"] == "7 without batches"
    assert notes["cost"] == "3.5, every prompt at its full price; no price for openai:y"
    assert notes["read"].startswith("exact but for 1 of 4 requests, which are an estimate: ")
    stops = "the whole input would stop after about 9 of 12 cases"
    assert notes["budget"] == f"4,500,000 tokens: enough for 3 cases; {stops}"
    for most, told in (
        (1_000_000, "not enough: the run would stop after about 2 of 12"),
        (6_000_000, "enough for all 12"),
    ):
        assert told in dict(_notes(replace(estimate, budget=BudgetCaps(max_tokens=most))))["budget"]
    _print(estimate)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[:5]]
    assert ["answer", "6", "3", "1,000,000", "500,000", "3.5"] in rows
    assert ["label", "3", "1", "0", "0", "-"] in rows
    assert ["total", "9", "4", "1,000,000", "500,000", "3.5"] in rows
