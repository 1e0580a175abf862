"""Runs over the same cases, side by side: scores, costs and times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evals.compare.matrix import Matrix, Side, matrix_of, read_side
from evals.scoring.scored_task import ScoredTask
from runs.record.folder import RunFolder, RunWriter
from runs.record.manifest import Model
from serving.protocol.budget import Price
from tests.evals.compare.builders import manifest, task_scores

CALL = {
    "model": "openai:gpt-x",
    "input_tokens": 1_000_000,
    "output_tokens": 200_000,
    "cached_tokens": 500_000,
}
# What thinking wrote is part of what was written.
THOUGHT = {**CALL, "cached_tokens": 0, "thinking_tokens": 100_000}
PRICE = Price(input=2, output=10, cached_input=1)


def side(folder: Path, *calls: dict[str, Any], scored: Sequence[ScoredTask] = ()) -> Side:
    """A run of the cases 0, which made the calls, and 1, which failed."""
    budget = {"prices": {"openai:gpt-x": PRICE}}
    models = {"label": Model(name="openai:gpt-x")}
    with RunWriter.create(folder, manifest(budget=budget, models=models)) as run:
        for case_id, error, its in (
            ("0", None, calls),
            ("1", {"class": "rate_limit", "message": "late"}, ()),
        ):
            line = {"case_id": case_id, "status": "failed" if error else "done", "error": error}
            steps = [
                {"step": 0, "node": "label", "calls": its},
                {"step": 1, "node": "__end__", "seconds": 60.0},
            ]
            run.append(line, [{"case_id": case_id, **step} for step in steps])
    return read_side(RunFolder(folder), scored)


@pytest.fixture
def matrix(tmp_path: Path) -> Matrix:
    """Runs whose prices are known, and known for some calls alone; without scores."""
    unknown = {**CALL, "model": "openai:gpt-y"}
    return matrix_of([side(tmp_path / "a", CALL, THOUGHT), side(tmp_path / "b", CALL, unknown)])


def test_costs_are_by_the_prices_of_the_run_and_thinking_is_paid_once(matrix: Matrix) -> None:
    costs = [one.uses["0"].cost for one in matrix.sides.values()]
    assert costs == [pytest.approx(3.5 + 4.0), None]
    first, second = matrix.runs_table().cells
    assert [cell.text for cell in first[2:]] == ["-", "7.5", "2.0 min", "1 done, 1 failed"]
    assert second[3].text == "-"


def test_without_scores_a_case_is_done_or_has_its_error(matrix: Matrix) -> None:
    assert matrix.as_json()["score"] is None
    done, failed = matrix.cases_table().cells
    assert [(cell.text, *cell.below) for cell in done[1:]] == [("done", "7.5, 1.0 min"), ("done", "1.0 min")]
    assert [cell.text for cell in failed[1:]] == ["rate limit", "rate limit"]


def test_scores_are_named_and_the_best_of_a_row_is_marked(tmp_path: Path) -> None:
    first, second = ([task_scores("2026-2", [counts])] for counts in ((2, 2, 2), (1, 2, 2)))
    made = matrix_of([side(tmp_path / "a", scored=first), side(tmp_path / "b", scored=second)])
    assert made.as_json()["score"] == made.score_name == "strict micro F1"
    (_, best, other), (last, *_) = made.cases_table(worst_first=True).cells
    assert last.text == "1"
    assert (best.text, best.tone) == ("100.00", "up")
    assert other.tone == "" and float(other.text) == pytest.approx(50)
