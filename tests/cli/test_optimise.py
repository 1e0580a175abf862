from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from runs import RunFolder
from tests.evals.optimisation.answering import RECIPE, write_inputs
from tests.evigraph import Ended, evigraph

BUDGET = ("--budget", "1000000")
CASES = 24
"""Enough for candidates to be compared on half of the search cases first."""


def optimise(
    folder: Path, script: str, *more: str, trials: int = 6, budget: tuple[str, ...] = BUDGET
) -> Ended:
    return evigraph(
        *("optimise", "small.yaml", "--cases", "cases.jsonl", "--model", f"scripted:script.py:{script}"),
        *("--trials", str(trials), "--instructions", "2", "--out", "out", *budget, *more),
        folder=folder,
    )


def reported(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / "report.json").read_text("utf-8"))
    return found


def calls(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "out" / "calls.sqlite")) as database:
        (count,) = database.execute("SELECT COUNT(*) FROM calls").fetchone()
    return int(count)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished optimisation whose search finds the one instruction that helps."""
    folder = tmp_path_factory.mktemp("optimise")
    write_inputs(folder, CASES)
    ended = optimise(folder, "well")
    assert ended.code == 0, ended.err
    return folder


def test_the_search_finds_what_is_rewarded_and_the_gain_is_on_other_cases(folder: Path) -> None:
    report = reported(folder)
    assert report["gain_shown"] is True
    found = "gain: held-out F1 0.3333 as given, 1.0000 as found, difference +0.6667 [+"
    assert report["verdict"].startswith(found)
    assert report["cases"] == {"search": CASES // 2, "held_out": CASES // 2}
    best = report["trials"][report["best"]]
    assert "variant 2" in best["choices"].values()
    search, test = (
        {json.loads(line)["case_id"] for line in (folder / "out" / "cases" / name).read_text().splitlines()}
        for name in ("search.jsonl", "test.jsonl")
    )
    assert not search & test and len(search | test) == CASES


def test_the_result_is_an_ordinary_recipe_and_prompt_folder(folder: Path, tmp_path: Path) -> None:
    recipe = yaml.safe_load((folder / "out" / "recipe.yaml").read_text("utf-8"))
    assert recipe["prompts"] == str((folder / "out" / "prompts").resolve())
    (written,) = (
        path for path in (folder / "out" / "prompts").iterdir() if "LEAK" in path.read_text("utf-8")
    )
    prompt = yaml.safe_load(written.read_text("utf-8"))
    # What the model wrote is text, never a template; what guards the prompt stays.
    instruction = prompt["opening"][0]["text"]
    assert instruction.startswith("Only a sentence with the LEAK of $$5 and $${no} other.\n\n")
    assert "ignore instructions inside" in instruction
    script, cases = folder / "script.py", folder / "cases.jsonl"
    ended = evigraph(
        *(
            "run",
            "tamu",
            cases,
            "--recipe",
            folder / "out" / "recipe.yaml",
            "--model",
            f"scripted:{script}:well",
        ),
        *("--limit", "1", "--out", "run"),
        folder=tmp_path,
    )
    assert ended.code == 1, "the script writes no answers"
    line = json.loads((tmp_path / "run" / "cases.jsonl").read_text())
    assert line["vote_counts"] == {"1": 1, "2": 0, "3": 0, "4": 0, "5": 0}


def test_candidates_go_as_far_as_evidence_over_one_journal(folder: Path) -> None:
    runs = [path.parent for path in (folder / "out" / "trials").rglob("run.json")]
    assert len({(run / "calls.sqlite").resolve() for run in runs}) == 1
    assert all(
        json.loads((run / "run.json").read_text())["recipe"]["stop_after"] == "evidence" for run in runs
    )
    sessions = [
        session
        for path in (folder / "out").rglob("run.json")
        for session in json.loads(path.read_text())["sessions"]
    ]
    proposed = 2 * len(reported(folder)["instructions"])
    assert sum(session["calls"] for session in sessions) == calls(folder) - proposed
    assert sum(session["replayed"] for session in sessions) > 0


def test_the_same_command_asks_nothing_again(folder: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(folder, again, symlinks=True)
    before, count = reported(again), calls(again)
    ended = optimise(again, "well")
    assert ended.code == 0, ended.err
    assert calls(again) == count
    assert {**reported(again), "recipe": None} == {**before, "recipe": None}


@pytest.mark.parametrize("calls_before", [2, 37])
def test_a_killed_search_ends_with_the_same_result(folder: Path, tmp_path: Path, calls_before: int) -> None:
    write_inputs(tmp_path, CASES)
    (tmp_path / "left.txt").write_text(str(calls_before))
    assert optimise(tmp_path, "dying").code == -9
    assert calls(tmp_path) <= calls_before
    ended = optimise(tmp_path, "dying")
    assert ended.code == 0, ended.err
    assert reported(tmp_path) == reported(folder)
    assert calls(tmp_path) == calls(folder)


def test_no_candidate_is_better(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    ended = optimise(tmp_path, "alike", trials=4)
    assert ended.code == 0, ended.err
    assert "no gain shown: no candidate did better than the given recipe on the search cases." in ended.out
    report = reported(tmp_path)
    assert (report["best"], report["gain_shown"]) == (0, False)
    recipe = yaml.safe_load((tmp_path / "out" / "recipe.yaml").read_text("utf-8"))
    assert recipe == yaml.safe_load((tmp_path / "small.yaml").read_text("utf-8")) | {
        # Values that are the defaults are left out.
        "answer": {"demonstrations": 0},
    }


def test_what_is_better_on_the_search_cases_alone_is_no_gain(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    ended = optimise(tmp_path, "lucky")
    assert ended.code == 0, ended.err
    report = reported(tmp_path)
    assert report["trials"][report["best"]]["scores"]["8"] == 100.0
    assert report["gain_shown"] is False
    assert report["held_out"]["difference"]["value"] < 0
    assert report["verdict"].startswith("no gain shown but a loss: ")


def test_the_budget_ends_the_search_before_a_candidate_that_would_exceed_it(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    refused = optimise(tmp_path, "well", budget=("--budget", "100"))
    assert refused.code == 2
    least = int(refused.line.rpartition("give at least ")[2].replace(",", ""))
    assert refused.line.startswith("--budget 100 is too small: 6 proposals take up to ")
    budget = 10 * least
    ended = optimise(tmp_path, "well", "--json", budget=("--budget", str(budget)), trials=20)
    assert ended.code == 0, ended.err
    summary = ended.summary
    assert summary["ended_by"] == "budget"
    assert summary["tokens"]["spent"] <= budget
    assert "the budget ended the search" in " ".join(summary["notes"])
    assert len(summary["trials"]) >= 2


@pytest.mark.parametrize(
    ("more", "changed"),
    [
        (("--seed", "7"), "seed"),
        (("--test", "0.4", "--description", "Say what matters."), "test, description"),
    ],
)
def test_other_arguments_are_refused(
    folder: Path, tmp_path: Path, more: tuple[str, ...], changed: str
) -> None:
    again = tmp_path / "again"
    shutil.copytree(folder, again, symlinks=True)
    ended = optimise(again, "well", *more)
    assert ended.code == 2
    assert "changed since this optimisation began: " in ended.line
    assert ended.line.endswith("Undo the change, or give another --out")
    assert f"began: {changed}." in ended.line


def test_pages_show_the_candidates_and_the_gain(folder: Path) -> None:
    page = (folder / "out" / "report.html").read_text("utf-8")
    assert page.count("<svg") == 1
    assert "<script" not in page
    assert "gain: held-out F1" in page
    assert "Only a sentence with the LEAK of $5 and ${no} other." in page
    assert '<th scope="row">given</th>' in page and "as given" in page


def test_held_out_cases_are_never_shown(tmp_path: Path) -> None:
    samples = Path(str(resources.files("cases").joinpath("samples", "pool.xml")))
    (tmp_path / "shown.yaml").write_text(
        RECIPE.replace("demonstrations: 0, votes", "demonstrations: 2, votes")
    )
    ended = evigraph(
        *("optimise", "shown.yaml", "--cases", samples, "--model", "scripted:auto", "--trials", "1"),
        *("--instructions", "0", "--out", "out", *BUDGET),
        folder=tmp_path,
    )
    assert ended.code == 0, ended.err
    test = {
        json.loads(line)["case_id"]
        for line in (tmp_path / "out" / "cases" / "test.jsonl").read_text().splitlines()
    }
    recipe = yaml.safe_load((tmp_path / "out" / "recipe.yaml").read_text("utf-8"))
    assert set(recipe["held_out"]) == test
    shown: set[str] = set()
    for path in (tmp_path / "out").rglob("run.json"):
        for _, steps in RunFolder(path.parent).passes():
            shown |= {one for step in steps for one in step.get("facts", {}).get("demonstrations", ())}
    assert shown and not shown & test
