from __future__ import annotations

from math import isnan

import pytest

from evals.evidence_scores import CaseEvidence, Scores, case_evidence, macro, micro


def case(predicted: str = "", essential: str = "", supplementary: str = "") -> CaseEvidence:
    return CaseEvidence(frozenset(predicted), frozenset(essential), frozenset(supplementary))


CASES = [case("125", "123", "4"), case("12", "2", "13"), case("", "14")]
LENIENT = [one.lenient() for one in CASES]
BOTH_EMPTY, NOTHING_PREDICTED, NOTHING_ESSENTIAL = case(), case("", "1"), case("1")
PERFECT, NONE = Scores(1.0, 1.0, 1.0), Scores(0.0, 0.0, 0.0)


def test_strict_micro() -> None:
    assert micro(CASES) == pytest.approx((0.6, 0.5, 0.5455), abs=5e-5)


def test_strict_macro() -> None:
    assert macro(CASES) == pytest.approx((0.3889, 0.5556, 0.4444), abs=5e-5)


def test_lenient_micro() -> None:
    assert micro(LENIENT) == pytest.approx((0.75, 0.5, 0.6), abs=5e-5)


def test_lenient_macro() -> None:
    assert macro(LENIENT) == pytest.approx((0.5556, 0.5556, 0.5556), abs=5e-5)


def test_lenient_recall_is_strict_recall() -> None:
    assert micro(LENIENT).recall == micro(CASES).recall


@pytest.mark.parametrize("score", [micro, macro])
@pytest.mark.parametrize(
    ("one", "scores"), [(BOTH_EMPTY, PERFECT), (NOTHING_PREDICTED, NONE), (NOTHING_ESSENTIAL, NONE)]
)
def test_nothing_is_perfect_only_where_nothing_is_wanted(
    score: object, one: CaseEvidence, scores: Scores
) -> None:
    assert callable(score)
    assert score([one]) == scores


def test_an_empty_case_lifts_macro_and_leaves_micro() -> None:
    assert micro([*CASES, BOTH_EMPTY]) == micro(CASES)
    assert macro([*CASES, BOTH_EMPTY]).f1 == pytest.approx((3 * macro(CASES).f1 + 1) / 4)


def test_macro_f1_is_the_mean_of_f1s() -> None:
    scores = macro([case("1", "1"), case("1", "2")])
    assert scores == Scores(0.5, 0.5, 0.5)


def test_no_cases_have_no_macro() -> None:
    assert all(isnan(value) for value in macro([]))


def test_labels_of_a_key_are_told_apart() -> None:
    labels = {"1": "essential", "2": "supplementary", "3": "not-relevant"}
    assert case_evidence(["1", "3"], labels) == case("13", "1", "2")


@pytest.mark.parametrize(
    ("correct", "predicted", "essential", "expected"),
    [(42, 84, 121, (0.5, 0.3471, 0.4098)), (102, 128, 121, (0.7969, 0.8430, 0.8193))],
)
def test_counts_of_the_paper(
    correct: int, predicted: int, essential: int, expected: tuple[float, float, float]
) -> None:
    ids = [str(number) for number in range(predicted + essential)]
    one = CaseEvidence(frozenset(ids[:predicted]), frozenset(ids[predicted - correct :][:essential]))
    assert micro([one]) == pytest.approx(expected, abs=5e-5)
