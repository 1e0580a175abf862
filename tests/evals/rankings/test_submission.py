"""Ranked cases as a submission."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases.submissions.tasks import ARCHEHR
from evals.submissions import check_target, write_ranked
from ranking.examples import Example
from ranking.rank_file import RankedRow
from storage.errors import InputError

CASE = Example("7", "q", ("a", "b"), None, "7", "7", sentence_ids=("1", "2"))


def test_selected_ids_are_handed_in(tmp_path: Path) -> None:
    rows = [RankedRow("7", ("2",), {"1": 0.0, "2": 1.0}, (), False, None, False)]
    assert write_ranked(tmp_path / "s.zip", rows, [CASE]) == []
    (read,) = ARCHEHR["2026-2"].read(tmp_path / "s.zip")
    assert (read.case_id, read.evidence) == ("7", ("2",))


def test_what_the_scorer_refuses_is_not_written(tmp_path: Path) -> None:
    rows = [RankedRow("7", ("9",), {"9": 0.0}, (), False, None, False)]
    (fault,) = write_ranked(tmp_path / "s.zip", rows, [CASE])
    assert "'9' is not a sentence of the note" in fault.line
    assert not (tmp_path / "s.zip").exists()


def test_examples_that_are_no_cases_are_refused() -> None:
    with pytest.raises(InputError, match="not a case of ArchEHR-QA"):
        check_target(Path("s.zip"), [Example("1", "q", ("a",), None, "d", "g")])


def test_another_suffix_is_refused() -> None:
    with pytest.raises(InputError, match=r"ends in \.zip or \.json"):
        check_target(Path("s.txt"), [CASE])
