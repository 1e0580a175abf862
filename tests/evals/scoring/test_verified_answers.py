"""Scores of verification need a run whose cases were verified, and no key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evals.run_scores import score_on, score_run
from evals.scoring.gold import ScoringError
from evals.scoring.verified_answers import score_verification
from tests.evals.scoring.runs import done, failed, make_run


def verified(case_id: str, status: str, *supports: str) -> dict[str, Any]:
    findings = [{"id": str(number), "support": one} for number, one in enumerate(supports, 1)]
    return done(case_id, answer_status=status, answer_support=findings)


LINES = [
    verified("1", "answered", "supported", "supported"),
    verified("2", "unsupported", "supported", "contradicted"),
    verified("3", "not_stated"),
    verified("4", "answered", "supported"),
    failed("5"),
]


def test_cases_are_counted_by_status_and_sentences_by_support(tmp_path: Path) -> None:
    one = score_verification(make_run(tmp_path, "12345", LINES))
    assert one is not None
    assert one.case_ids == ("1", "2", "3", "4")
    assert one.as_json()["counts"] == {
        "answered_cases": 2,
        "not_stated_cases": 1,
        "unsupported_cases": 1,
        "supported_sentences": 4,
        "contradicted_sentences": 1,
        "not_stated_sentences": 0,
    }
    assert one.values["answered_cases"] == 50
    assert one.headline_value == one.values["supported_sentences"] == 80
    assert one.by_case(worst_first=True) == {"2": 0, "3": 0, "1": 100, "4": 100}


def test_without_findings_there_are_only_cases(tmp_path: Path) -> None:
    one = score_verification(make_run(tmp_path, "12", [verified("1", "not_stated"), done("2")]))
    assert one is not None
    assert one.values == {"answered_cases": 50, "not_stated_cases": 50, "unsupported_cases": 0}
    assert one.headline == "answered_cases"


def test_a_run_without_verification_has_none(tmp_path: Path) -> None:
    run = make_run(tmp_path, "12", [done("1"), failed("2")])
    assert score_verification(run) is None
    assert score_on(run, {}) == []


def test_it_follows_the_tasks_of_the_key(tmp_path: Path) -> None:
    gold = {"1": "essential", "2": "not-relevant", "3": "essential"}
    run = make_run(tmp_path, "12345", LINES, labels=gold)
    assert [one.task for one in score_run(run)] == ["2026-2", "verification"]
    assert [one.task for one in score_run(run, task="2026-2")] == ["2026-2"]
    assert score_run(run, case_ids="2-3")[-1].case_ids == ("2", "3")


def test_a_run_without_a_key_is_scored_on_it_alone(tmp_path: Path) -> None:
    run = make_run(tmp_path, "12345", LINES)
    (one,) = score_run(run)
    assert one.task == "verification"
    assert "share nothing to score" in one.notes[-1]
    with pytest.raises(ScoringError, match="has labels, which 2026-2 is scored against"):
        score_run(run, task="2026-2")
