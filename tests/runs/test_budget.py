"""A run with a budget stops in time, says so, and goes on as if nothing had been."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runs.record.folder import RunFolder
from runs.record.used import with_unrecorded
from tests.evigraph import Ended, evigraph


def run(folder: Path, recipe: Path, out: str, *more: str) -> Ended:
    return evigraph(
        *("run", "tamu", "cases.jsonl", "--recipe", str(recipe), "--model", "scripted:auto"),
        *("--out", out, "--json", "--concurrency", "2", *more),
        folder=folder,
    )


def manifest(folder: Path, out: str = "run") -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / out / "run.json").read_text())
    return read


def used(folder: Path) -> int:
    return sum(one["input_tokens"] + one["output_tokens"] for one in manifest(folder)["sessions"])


def test_a_token_budget_stops_the_run_and_the_whole_equals_an_unbudgeted_one(
    tmp_path: Path, recipe: Path, cases: Path
) -> None:
    whole = run(tmp_path, recipe, "whole").summary
    total = whole["input_tokens"] + whole["output_tokens"]
    cap = total * 3 // 4

    stopped = run(tmp_path, recipe, "run", "--max-tokens-total", str(cap))
    assert stopped.summary["status"] == "interrupted"
    assert stopped.summary["failed"] == 0
    assert 0 < stopped.summary["done"] < 6
    assert 0 < used(tmp_path) <= cap
    (session,) = manifest(tmp_path)["sessions"]
    assert session["stopped_by"].startswith(f"budget of {cap:,} tokens: ")
    # Every call was one of a case that has ended.
    lines = (tmp_path / "run" / "cases.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["usage"]["calls"] for line in lines) == session["calls"]
    assert not (tmp_path / "run" / "progress.json").exists()

    # Without a flag the recorded budget stays in force, for all sessions together.
    again = evigraph("resume", "run", "--json", folder=tmp_path)
    assert again.summary["status"] == "interrupted"
    assert manifest(tmp_path)["budget"]["max_tokens"] == cap
    assert used(tmp_path) <= cap

    last = evigraph("resume", "run", "--json", "--max-tokens-total", str(10 * total), folder=tmp_path)
    assert (last.code, last.summary["status"], last.summary["done"]) == (0, "finished", 6)
    assert manifest(tmp_path)["sessions"][-1]["stopped_by"] is None
    assert used(tmp_path) == total
    assert (tmp_path / "run" / "cases.jsonl").read_bytes() == (
        tmp_path / "whole" / "cases.jsonl"
    ).read_bytes()


def test_a_cost_budget_stops_the_run_by_its_prices(tmp_path: Path, recipe: Path, cases: Path) -> None:
    (tmp_path / "prices.yaml").write_text('models: {"scripted:auto": {input: 100, output: 100}}')
    stopped = run(tmp_path, recipe, "run", "--max-cost", "0.8", "--prices", "prices.yaml")
    assert stopped.summary["status"] == "interrupted"
    (session,) = manifest(tmp_path)["sessions"]
    assert session["stopped_by"].startswith("budget of 0.8: ")
    assert session["cost"] == pytest.approx(used(tmp_path) * 100 / 1_000_000)
    assert 0 < session["cost"] <= 0.8
    assert manifest(tmp_path)["budget"]["prices"]["scripted:auto"]["input"] == 100


def test_a_cost_without_prices_is_refused(tmp_path: Path, recipe: Path, cases: Path) -> None:
    ended = run(tmp_path, recipe, "run", "--max-cost", "1")
    assert ended.code == 2
    assert "--prices" in ended.err
    assert not (tmp_path / "run").exists()


def test_a_cost_limit_needs_a_price_for_each_model(tmp_path: Path, recipe: Path, cases: Path) -> None:
    (tmp_path / "prices.yaml").write_text('models: {"openai:other": {input: 1, output: 1}}')
    ended = run(tmp_path, recipe, "run", "--max-cost", "1", "--prices", "prices.yaml")
    assert ended.code == 2
    assert ended.line.startswith("--max-cost: the price file has no price for 'scripted:auto'")
    assert not (tmp_path / "run").exists()


def test_a_new_token_limit_leaves_the_recorded_cost_limit_as_it_was(
    tmp_path: Path, recipe: Path, cases: Path
) -> None:
    (tmp_path / "prices.yaml").write_text('models: {"scripted:auto": {input: 100, output: 100}}')
    run(tmp_path, recipe, "run", "--max-cost", "0.8", "--prices", "prices.yaml")
    evigraph("resume", "run", "--json", "--max-tokens-total", "100000000", folder=tmp_path)
    budget = manifest(tmp_path)["budget"]
    assert (budget["max_tokens"], budget["max_cost"]) == (100_000_000, 0.8)
    raised = evigraph("resume", "run", "--json", "--max-cost", "1000", folder=tmp_path)
    assert (raised.code, raised.summary["done"]) == (0, 6)


KILLED_ONCE = """\
import os, signal
from serving.backends.scripted import made_up_reply

made = 0

async def reply(call):
    global made
    made += call.case_id != ""
    if made == 25 and not os.path.exists("killed"):
        open("killed", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return made_up_reply(call)
"""


def test_the_cost_of_a_killed_session_is_kept(tmp_path: Path, recipe: Path, cases: Path) -> None:
    (tmp_path / "script.py").write_text(KILLED_ONCE)
    (tmp_path / "prices.yaml").write_text('models: {"scripted:script.py:reply": {input: 100, output: 100}}')
    priced = ("--model", "scripted:script.py:reply", "--prices", "prices.yaml", "--max-cost", "1000")
    assert run(tmp_path, recipe, "run", *priced).code == -9
    folder = RunFolder(tmp_path / "run")
    killed = with_unrecorded(folder.path, folder.manifest).total_cost
    assert killed > 0

    resumed = evigraph("resume", "run", "--json", folder=tmp_path).summary
    whole = run(tmp_path, recipe, "whole", *priced).summary
    assert resumed["done"] == 6 and resumed["max_cost"] == 1000
    assert resumed["calls"] == whole["calls"]
    assert resumed["cost"] == pytest.approx(whole["cost"])
    first, second = manifest(tmp_path)["sessions"]
    assert first["cost"] == pytest.approx(killed)
    assert first["cost"] + second["cost"] == pytest.approx(whole["cost"])
