"""Runs whose model names no server start one, use it, and end it however they end themselves."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.evigraph import Ended, Started, evigraph, write_cases
from tests.stand_in_vllm import PYTHON, StandIn, install, make_model


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    folder = tmp_path / "stand-in"
    folder.mkdir()
    make_model(tmp_path / "tiny")
    make_model(tmp_path / "other")
    write_cases(tmp_path / "cases.jsonl", 2)
    stand_in = install(folder)
    for name, value in stand_in.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("EVIGRAPH_VLLM_PYTHON", str(PYTHON))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield stand_in
    stand_in.clean_up()


def arguments(recipe: Path, *models: str) -> list[str]:
    named = [text for model in models for text in ("--model", model)]
    return ["run", "tamu", "cases.jsonl", "--recipe", str(recipe), *named, "--out", "run", "--json"]


def run(folder: Path, recipe: Path, *models: str) -> Ended:
    return evigraph(*arguments(recipe, *models), folder=folder)


def test_a_run_starts_one_server_and_ends_it_and_so_does_a_retry(
    tmp_path: Path, recipe: Path, stand_in: StandIn
) -> None:
    ended = run(tmp_path, recipe, "vllm:tiny")
    assert (ended.code, ended.summary["done"]) == (0, 2)
    (started,) = stand_in.started()
    assert started.value("--served-model-name") == "tiny"
    assert started.value("--host") == "127.0.0.1"
    manifest = json.loads((tmp_path / "run" / "run.json").read_text())
    assert {model["name"] for model in manifest["models"].values()} == {"vllm:tiny"}
    resumed = evigraph("resume", "run", "--json", folder=tmp_path)
    assert (resumed.code, resumed.summary["last_session"]["calls"]) == (0, 0)
    # No case is left that would ask it.
    assert len(stand_in.started()) == 1
    assert evigraph("retry", "run", folder=tmp_path).code == 0
    assert len(stand_in.started()) == 2
    assert stand_in.running() == []


def test_each_distinct_model_has_its_server(tmp_path: Path, recipe: Path, stand_in: StandIn) -> None:
    assert run(tmp_path, recipe, "vllm:tiny", "answer=vllm:other").code == 0
    assert {start.value("--served-model-name") for start in stand_in.started()} == {"tiny", "other"}
    assert len({start.port for start in stand_in.started()}) == 2
    assert stand_in.running() == []


def test_a_search_for_prompts_asks_the_server_that_it_starts(
    tmp_path: Path, recipe: Path, stand_in: StandIn
) -> None:
    write_cases(tmp_path / "cases.jsonl", 8)
    key = [
        {"case_id": f"k{n}", "answers": [{"sentence_id": "1", "relevance": "essential"}]} for n in range(8)
    ]
    (tmp_path / "key.json").write_text(json.dumps(key))
    ended = evigraph(
        *("optimise", recipe, "--cases", "cases.jsonl", "--key", "key.json", "--model", "vllm:tiny"),
        *("--trials", "1", "--instructions", "1", "--out", "out", "--budget", "1000000"),
        folder=tmp_path,
    )
    assert ended.code == 0, ended.err
    (started,) = stand_in.started()
    assert started.value("--served-model-name") == "tiny"
    assert stand_in.running() == []


def test_a_serve_recipe_may_be_named_in_the_environment(
    tmp_path: Path, recipe: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").write_text("max-num-seqs: 4\n")
    monkeypatch.setenv("EVIGRAPH_VLLM_RECIPE", "mine.yaml")
    assert run(tmp_path, recipe, "vllm:tiny").code == 0
    assert stand_in.started()[0].value("--max-num-seqs") == "4"


def test_what_can_be_refused_at_once_starts_no_server(
    tmp_path: Path, recipe: Path, stand_in: StandIn
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "something").touch()
    assert "the folder is not empty" in run(tmp_path, recipe, "vllm:tiny").line
    (tmp_path / "cases.jsonl").unlink()
    (tmp_path / "run" / "something").unlink()
    assert run(tmp_path, recipe, "vllm:tiny").code == 2
    assert stand_in.started() == []


def test_a_run_that_is_refused_later_ends_its_server(tmp_path: Path, recipe: Path, stand_in: StandIn) -> None:
    (tmp_path / "prices.yaml").write_text("models: {}")
    budget = ("--max-cost", "1", "--prices", "prices.yaml")
    refused = evigraph(*arguments(recipe, "vllm:tiny"), *budget, folder=tmp_path)
    assert "no price for 'vllm:tiny'" in refused.line
    assert len(stand_in.started()) == 1
    assert stand_in.running() == []


def test_a_server_that_dies_at_its_start_fails_the_run_in_one_line(
    tmp_path: Path, recipe: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_ACT", "die")
    ended = run(tmp_path, recipe, "vllm:tiny")
    assert ended.code == 2
    assert "ValueError: the cache is too small" in ended.line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_server_starts_ends_it(
    tmp_path: Path,
    recipe: Path,
    stand_in: StandIn,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    monkeypatch.setenv("STAND_IN_ACT", "hang")
    process = Started(*arguments(recipe, "vllm:tiny"), folder=tmp_path)
    stand_in.wait_for_start()
    process.send_signal(number)
    assert process.wait(timeout=120) == 130
    assert stand_in.running() == []


def test_a_pool_is_classified_by_a_server_of_its_own(tmp_path: Path, stand_in: StandIn) -> None:
    case = {"case_id": "p", "question": "q?", "sentences": ["a", "b"], "labels": {"1": "essential"}}
    (tmp_path / "pool.jsonl").write_text(json.dumps(case) + "\n")
    ended = evigraph(
        *("demos", "build", "pool.jsonl", "--to", "pool", "--embedding", "lexical:64"),
        *("--model", "vllm:tiny"),
        folder=tmp_path,
    )
    assert ended.code == 0, ended.err
    assert len(stand_in.started()) == 1
    assert stand_in.running() == []
