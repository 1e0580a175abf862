from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from cli.measuring.experiment import _print
from evals.experiments.report import ExperimentReport
from evals.experiments.run import Cells, PlannedCell
from runs.upkeep.check import repair_run
from tests.evals.experiments.claims import write_examples
from tests.evals.scoring.submissions import CASES, KEY
from tests.evigraph import Ended, evigraph, write_recipe

GRID = """
recipe: lexical.yaml
cases: dev.xml
model: scripted:auto
cells:
  few-shot: {set: {evidence.votes: 1, evidence.threshold: 1, evidence.reflection: false}}
  voting: {}
tables: {3: [few-shot, voting], 7: [few-shot, voting]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished experiment of two cells on three cases."""
    folder = tmp_path_factory.mktemp("experiment")
    write_recipe(folder)
    shutil.copy(CASES, folder / "dev.xml")
    shutil.copy(KEY, folder / "dev_key.json")
    (folder / "grid.yaml").write_text(GRID)
    ended = experiment(folder)
    assert ended.code == 0, ended.err
    return folder


def experiment(folder: Path, *more: str) -> Ended:
    return evigraph("experiment", "grid.yaml", "--limit", "3", "--out", "exp", *more, folder=folder)


def test_every_cell_is_a_run_folder_over_one_journal(folder: Path) -> None:
    journals = {
        (folder / "exp" / "cells" / name / "calls.sqlite").resolve() for name in ("few-shot", "voting")
    }
    assert journals == {(folder / "exp" / "calls.sqlite").resolve()}
    assert evigraph("show", "exp/cells/voting", folder=folder).code == 0


def test_what_cells_share_is_asked_once(folder: Path) -> None:
    one, other = (
        json.loads((folder / "exp" / "cells" / name / "run.json").read_text())["sessions"][0]
        for name in ("few-shot", "voting")
    )
    # The intent of each case and its first vote.
    assert one["replayed"] == 0
    assert other["replayed"] == 6


def test_tables_are_written(folder: Path) -> None:
    text = (folder / "exp" / "tables.md").read_text("utf-8")
    assert "## Table 3." in text and "## Table 7." in text
    assert "voting, T of each case tuned on the others" in text
    assert "Few cases (3)" in text
    page = (folder / "exp" / "tables.html").read_text("utf-8")
    assert page.count("<svg") == 2
    assert "<script" not in page


def test_the_same_command_goes_on_and_asks_nothing_twice(folder: Path) -> None:
    before = (folder / "exp" / "tables.md").read_bytes()
    ended = experiment(folder, "--json")
    assert ended.code == 0
    assert ended.summary["unfinished"] == []
    assert (folder / "exp" / "tables.md").read_bytes() == before
    run = json.loads((folder / "exp" / "cells" / "voting" / "run.json").read_text())
    assert len(run["sessions"]) == 1


def test_an_interrupted_cell_is_resumed(folder: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(folder, again, symlinks=True)
    cell = again / "exp" / "cells" / "voting"
    lines = (cell / "cases.jsonl").read_text().splitlines(keepends=True)
    (cell / "cases.jsonl").write_text("".join(lines[:1]))
    # What is left is a run that was interrupted after its first case.
    repair_run(cell)
    assert experiment(again).code == 0
    resumed = json.loads((cell / "run.json").read_text())["sessions"][-1]
    assert (resumed["command"], resumed["calls"]) == ("resume", 0)
    assert resumed["replayed"] > 0
    assert len((cell / "cases.jsonl").read_text().splitlines()) == 3


def test_a_changed_cell_is_refused(folder: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(folder, changed, symlinks=True)
    (changed / "grid.yaml").write_text(GRID.replace("voting: {}", "voting: {set: {evidence.threshold: 1}}"))
    ended = experiment(changed)
    assert ended.code == 2
    assert "cell 'voting' has changed since this experiment began" in ended.line


def test_a_budget_is_that_of_all_cells(folder: Path, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    shutil.copytree(folder, fresh, ignore=shutil.ignore_patterns("exp"))
    ended = experiment(fresh, "--max-tokens-total", "3000", "--json")
    assert ended.code == 1
    assert "voting" in ended.summary["unfinished"]
    assert "used" in ended.err or "budget" in ended.err or "tokens" in ended.err
    assert experiment(fresh, "--max-tokens-total", "1000000").code == 0


def test_thresholds_tuned_on_another_split(folder: Path, tmp_path: Path) -> None:
    split = tmp_path / "split"
    shutil.copytree(folder, split, ignore=shutil.ignore_patterns("exp"))
    samples = CASES.parent
    shutil.copy(samples / "pool.xml", split / "train.xml")
    shutil.copy(samples / "pool_key.json", split / "train_key.json")
    (split / "grid.yaml").write_text(GRID + "tune_on: train.xml\n")
    ended = experiment(split)
    assert ended.code == 0, ended.err
    assert "tuned on the other split" in (split / "exp" / "tables.md").read_text("utf-8")
    assert (split / "exp" / "tuning" / "voting" / "run.json").is_file()


def test_a_file_that_is_no_experiment_is_one_line(folder: Path) -> None:
    (folder / "broken.yaml").write_text("cells: {a: {model: 3}}")
    ended = evigraph("experiment", "broken.yaml", folder=folder)
    assert ended.code == 2
    assert ended.line.startswith("experiment broken.yaml: cells.a.model")


def test_a_row_that_cannot_be_scored_is_left_out_and_named(folder: Path, tmp_path: Path) -> None:
    partial = tmp_path / "partial"
    shutil.copytree(folder, partial, ignore=shutil.ignore_patterns("exp"))
    (partial / "grid.yaml").write_text(
        GRID.replace("reflection: false", "reflection: false, stop_after: evidence")
    )
    ended = experiment(partial, "--json")
    assert ended.code == 0, ended.err
    assert any(note.startswith("few-shot is left out of table 7: ") for note in ended.summary["notes"])
    (table,) = [one for one in ended.summary["tables"] if one["table"] == "7"]
    assert [row["name"] for row in table["rows"]] == ["voting"]


def test_rankers_and_runs_may_be_cells_of_one_experiment(folder: Path, tmp_path: Path) -> None:
    mixed = tmp_path / "mixed"
    shutil.copytree(folder, mixed, ignore=shutil.ignore_patterns("exp"))
    write_examples(mixed / "claims.jsonl", 30, "a")
    (mixed / "grid.yaml").write_text(
        "recipe: lexical.yaml\ncases: dev.xml\nmodel: scripted:auto\n"
        "cells: {few-shot: {set: {evidence.votes: 1, evidence.threshold: 1}}, bm25: {ranker: bm25}}\n"
        "tables: {4: [few-shot], abridge-2: [bm25]}\n"
    )
    ended = experiment(mixed, "--data", "claims.jsonl", "--json")
    assert ended.code == 0, ended.err
    assert [table["table"] for table in ended.summary["tables"]] == ["4", "abridge-2"]
    assert (mixed / "exp" / "cells" / "bm25" / "seed-0.npz").is_file()
    plan = json.loads((mixed / "exp" / "experiment.json").read_text())
    assert set(plan) == {"few-shot", "bm25"}


def test_a_ranker_that_cannot_be_trained_is_named(tmp_path: Path) -> None:
    write_examples(tmp_path / "claims.jsonl", 30, "a")
    (tmp_path / "grid.yaml").write_text(
        "rankers: {data: [claims.jsonl], seeds: [1], set: {model.encoder: nowhere}}\n"
        "cells: {broken: {ranker: pointwise}, bm25: {ranker: bm25}}\n"
        "tables: {abridge-2: [broken, bm25]}\n"
    )
    ended = experiment(tmp_path, "--json")
    assert ended.code == 1
    assert list(ended.summary["failed"]) == ended.summary["unfinished"] == ["broken, seed 1"]
    (table,) = ended.summary["tables"]
    assert [row["name"] for row in table["rows"]] == ["bm25"]


def test_what_has_not_finished_and_what_failed_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    made = ExperimentReport((), ("A note.",), Path("tables.md"), Path("tables.csv"), Path("page.html"))
    planned = [cast(PlannedCell, SimpleNamespace(name="a", tuning=True))]
    _print(planned, Cells({}, {}), {"tiny": "loss is not finite"}, made)
    printed = " ".join(capsys.readouterr().out.split())
    assert printed == (
        "cell cases calls made shared or replayed tokens a (tuning) not finished A note."
        " failed tiny: loss is not finite tables tables.md tables.csv page page.html"
    )
