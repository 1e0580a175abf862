from __future__ import annotations

from pathlib import Path
from typing import Any

from runs.batch import HeldCases
from runs.reviewers import ReviewedRun
from runs.reviews import Reviews, fingerprint, make_review
from tests.nodes.builders import case

LINE: dict[str, Any] = {"case_id": "q", "labels": {"1": "essential"}, "answer": None, "review": None}


def test_a_review_that_was_heard_before_the_case_is_held_lets_it_go(tmp_path: Path) -> None:
    held = HeldCases(ReviewedRun(tmp_path), print)
    Reviews(tmp_path).add(make_review(LINE, reviewer="Ann", labels={}))
    assert held.next_reviewed() is None
    held.hold(case("q"), fingerprint(LINE))
    assert held.next_reviewed() == case("q")
    assert held.next_reviewed() is None


def test_a_review_of_another_result_lets_no_case_go(tmp_path: Path) -> None:
    held = HeldCases(ReviewedRun(tmp_path), print)
    held.hold(case("q"), fingerprint(LINE | {"answer": "Another."}))
    Reviews(tmp_path).add(make_review(LINE, reviewer="Ann", labels={}))
    assert held.next_reviewed() is None
