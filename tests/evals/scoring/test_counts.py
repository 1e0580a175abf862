from __future__ import annotations

from math import isnan

import pytest

from evals.scoring.counts import Counts, EmptyRule, PrecisionRecallF1, count, macro, micro, scores

PERFECT, NONE = PrecisionRecallF1(1.0, 1.0, 1.0), PrecisionRecallF1(0.0, 0.0, 0.0)


def test_counts_of_sets() -> None:
    assert count({"1", "2", "5"}, {"1", "2", "3"}) == Counts(2, 3, 3)


@pytest.mark.parametrize(("empty", "expected"), [("perfect", PERFECT), ("zero", NONE)])
def test_nothing_where_nothing_is_wanted(empty: EmptyRule, expected: PrecisionRecallF1) -> None:
    assert scores(Counts(0, 0, 0), empty) == expected
    assert micro([Counts(0, 0, 0)] * 3, empty) == expected


@pytest.mark.parametrize("empty", ["perfect", "zero"])
@pytest.mark.parametrize("one", [Counts(0, 2, 0), Counts(0, 0, 2)])
def test_one_side_empty_scores_nothing(one: Counts, empty: EmptyRule) -> None:
    assert scores(one, empty) == NONE


def test_an_empty_case_lifts_macro_and_leaves_micro() -> None:
    counts = [Counts(1, 2, 2), Counts(1, 1, 3)]
    more = [*counts, Counts(0, 0, 0)]
    assert micro(more, "perfect") == micro(counts, "perfect")
    assert macro(more, "perfect").f1 == pytest.approx((2 * macro(counts, "perfect").f1 + 1) / 3)


def test_macro_f1_is_the_mean_of_f1s() -> None:
    # The F1 of the mean precision 0.75 and the mean recall 0.75 would be 0.75.
    assert macro([Counts(1, 1, 2), Counts(1, 2, 1)], "zero").f1 == pytest.approx(2 / 3)


def test_no_cases_have_no_macro() -> None:
    assert all(isnan(value) for value in macro([], "perfect"))


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (Counts(42, 84, 121), (0.5, 0.3471, 0.4098)),
        (Counts(46, 84, 147), (0.5476, 0.3129, 0.3983)),
        (Counts(102, 267, 121), (0.3820, 0.8430, 0.5258)),
        (Counts(76, 160, 121), (0.4750, 0.6281, 0.5409)),
        (Counts(100, 130, 121), (0.7692, 0.8264, 0.7968)),
        (Counts(103, 130, 121), (0.7923, 0.8512, 0.8207)),
        (Counts(102, 128, 121), (0.7969, 0.8430, 0.8193)),
    ],
)
def test_counts_of_the_paper_give_its_tables(counts: Counts, expected: tuple[float, float, float]) -> None:
    assert tuple(round(value, 4) for value in micro([counts], "perfect")) == expected
