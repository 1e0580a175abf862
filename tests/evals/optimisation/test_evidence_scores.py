from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from evals.optimisation.run import HEADLINE, evidence_scores
from evals.optimisation.split import CaseFiles, Part, split_cases
from runs.record.folder import RunFolder
from tests.evals.optimisation.answering import write_inputs


class Ran:
    """A run with these lines."""

    def __init__(self, *lines: dict[str, Any]) -> None:
        self._lines = lines

    def cases(self) -> tuple[dict[str, Any], ...]:
        return self._lines


@pytest.fixture
def part(tmp_path: Path) -> Part:
    write_inputs(tmp_path)
    return split_cases(CaseFiles((tmp_path / "cases.jsonl",)), 0.5, 1, tmp_path / "parts").search


def done(part: Part, place: int) -> dict[str, Any]:
    case = part.cases[place]
    return {"case_id": case.id, "status": "done", "labels": dict(case.gold.labels or {})}


def test_a_case_that_failed_counts_as_one_without_evidence(part: Part) -> None:
    failed = {"case_id": part.cases[1].id, "status": "failed", "labels": None}
    for lines in ([done(part, 0), failed], [done(part, 0)]):
        scores, failures = evidence_scores(cast("RunFolder", Ran(*lines)), part, 2)
        assert failures == 1
        # One of two essential sentences is found.
        assert scores.values[HEADLINE] == pytest.approx(100 * 2 / 3)


def test_only_the_first_cases_count(part: Part) -> None:
    every = Ran(*(done(part, place) for place in range(4)))
    scores, failures = evidence_scores(cast("RunFolder", every), part, 2)
    assert (len(scores.case_ids), failures) == (2, 0)
