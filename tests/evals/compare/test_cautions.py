from __future__ import annotations

from evals.compare.differences import Settings
from evals.compare.outcomes import CaseOutcome, RunOutcomes
from runs.record.manifest import Inputs
from tests.evals.compare.builders import compared, gold, outcome, run

MANY = [f"k{number}" for number in range(50)]
KEY = gold(**dict.fromkeys(MANY, "1"))


def many(*others: CaseOutcome, without: str = "") -> list[CaseOutcome]:
    return [*(outcome(case_id, "1") for case_id in MANY if case_id != without), *others]


def said(first: RunOutcomes, second: RunOutcomes, settings: Settings | None = None) -> list[str]:
    return list(compared(first, second, KEY, settings or Settings(resamples=499)).cautions)


def test_fifty_cases_of_two_equal_runs_call_for_no_caution() -> None:
    assert said(run(*many()), run(*many())) == []


def test_few_cases() -> None:
    (caution,) = said(run(*many(without="k3")), run(*many(without="k3")))
    assert "Only 49 cases" in caution


def test_the_best_of_several() -> None:
    (caution,) = said(run(*many()), run(*many()), Settings(resamples=9_999, candidates=4))
    assert "best of 4" in caution and "98.75%" in caution


def test_ends_of_intervals_that_rest_on_too_few_resamples() -> None:
    (caution,) = said(run(*many()), run(*many()), Settings(resamples=99))
    assert "2.5 resamples" in caution and "--resamples 400" in caution


def test_failed_cases_are_named_and_left_out() -> None:
    failed = outcome("bad", error="timeout")
    found = compared(run(*many(failed)), run(*many(outcome("bad"))), KEY, Settings(resamples=499))
    assert found.pairing.failed_first == ("bad",)
    assert "bad" not in found.pairing.both
    assert "1 case failed in A and is left out" in found.cautions[0]


def test_cases_of_one_run_alone() -> None:
    (caution,) = said(run(*many()), run(*many(outcome("x"), outcome("y"))))
    assert "2 cases are in B alone" in caution


def test_other_case_files() -> None:
    other = run(*many(), inputs=Inputs(paths=[], sha256="ab", cases=50))
    (caution,) = said(run(*many()), other)
    assert "other case files or keys" in caution


def test_other_sentences_under_the_same_id() -> None:
    (caution,) = said(run(*many(outcome("x"))), run(*many(outcome("x", sentences="7 8"))))
    assert "1 case has other sentence ids" in caution


def test_scored_cases_among_the_demonstrations() -> None:
    (caution,) = said(run(*many(), shown="k1 k2 z9"), run(*many()))
    assert caution.startswith("In A, 2 of the scored case ids also served as demonstrations")
