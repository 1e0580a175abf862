from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from evals.statistics.bootstrap import Interval, paired_bootstrap
from evals.statistics.case_totals import CaseStatistic, Mean
from tests.evals.statistics.sides import STATISTICS, side, two_sides

RESAMPLES = 4_000


@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
def test_intervals_of_differences_are_those_of_scipy(statistic: CaseStatistic) -> None:
    first, second = two_sides(25)
    columns = list(statistic.columns)

    def difference(*drawn: Any, axis: int) -> Any:
        one, other = np.zeros((2, *drawn[0].shape[:-1], first.shape[1]))
        for place, column in enumerate(columns):
            one[..., column] = drawn[place].sum(axis=axis)
            other[..., column] = drawn[len(columns) + place].sum(axis=axis)
        return statistic.of(other, drawn[0].shape[-1]) - statistic.of(one, drawn[0].shape[-1])

    expected = stats.bootstrap(
        [*first[:, columns].T, *second[:, columns].T],
        difference,
        paired=True,
        vectorized=True,
        method="BCa",
        n_resamples=RESAMPLES,
        rng=np.random.default_rng(1),
    )
    (found,) = paired_bootstrap(first, second, [statistic], resamples=RESAMPLES)
    assert found.difference.method == "bca"
    # The ends of two bootstraps of one sample differ by chance: by a few hundredths of the standard error.
    close = 0.2 * float(expected.standard_error)
    interval = expected.confidence_interval
    assert (found.difference.low, found.difference.high) == pytest.approx(tuple(interval), abs=close)


def test_intervals_of_one_run_are_those_of_scipy() -> None:
    first, second = two_sides(25)
    (found,) = paired_bootstrap(first, second, [Mean(3)], resamples=RESAMPLES)
    expected = stats.bootstrap([second[:, 3]], np.mean, n_resamples=RESAMPLES, rng=np.random.default_rng(1))
    assert found.second.value == pytest.approx(second[:, 3].mean())
    assert (found.second.low, found.second.high) == pytest.approx(
        tuple(expected.confidence_interval), abs=0.2 * float(expected.standard_error)
    )


def test_ties_count_by_half_as_in_scipy() -> None:
    first, second = two_sides(12)
    first[:, 3], second[:, 3] = 0, [0] * 9 + [1] * 3
    (found,) = paired_bootstrap(first, second, [Mean(3)], resamples=RESAMPLES)
    expected = stats.bootstrap([second[:, 3]], np.mean, rng=np.random.default_rng(1)).confidence_interval
    assert (found.difference.low, found.difference.high) == pytest.approx(tuple(expected), abs=1e-9)


def test_equal_seeds_give_equal_intervals() -> None:
    sides = two_sides(30)
    assert paired_bootstrap(*sides, STATISTICS, resamples=500) == paired_bootstrap(
        *sides, STATISTICS, resamples=500
    )
    assert paired_bootstrap(*sides, STATISTICS, resamples=500) != paired_bootstrap(
        *sides, STATISTICS, resamples=500, seed=43
    )


def test_draws_in_several_blocks_are_the_draws_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    sides = two_sides(30)
    whole = paired_bootstrap(*sides, STATISTICS, resamples=500)
    monkeypatch.setattr("evals.statistics.bootstrap._CHUNK", 30 * 7)
    parts = paired_bootstrap(*sides, STATISTICS, resamples=500)
    for one, other in zip(whole, parts, strict=True):
        assert one.difference[:3] == pytest.approx(other.difference[:3])


def test_identical_runs_differ_by_exactly_nothing() -> None:
    first, _ = two_sides(40)
    for found in paired_bootstrap(first, first.copy(), STATISTICS, resamples=300):
        assert found.difference == Interval(0.0, 0.0, 0.0, "percentile")
        assert found.first == found.second


def test_one_case_has_no_interval() -> None:
    first, second = two_sides(1)
    (found,) = paired_bootstrap(first, second, [Mean(3)], resamples=50)
    assert found.difference.method == "none"
    assert np.isnan([found.difference.low, found.difference.high]).all()


def test_intervals_cover_the_true_difference_as_often_as_they_say() -> None:
    # Both sides are drawn from one population, so the true difference is 0.
    generator = np.random.default_rng(7)
    pooled_f1 = [STATISTICS[2]]
    covered = 0
    for trial in range(300):
        first = side(generator, 40)
        second = side(generator, 40, first[:, 2])
        (found,) = paired_bootstrap(first, second, pooled_f1, resamples=400, seed=trial)
        covered += found.difference.low <= 0 <= found.difference.high
    # Three standard errors of a share of 0.95 in 300 trials are 0.038.
    assert 0.90 < covered / 300 < 0.99


def test_a_wider_level_contains_a_narrower_one() -> None:
    sides = two_sides(30)
    (narrow,) = paired_bootstrap(*sides, [Mean(3)], resamples=2_000, level=0.9)
    (wide,) = paired_bootstrap(*sides, [Mean(3)], resamples=2_000, level=0.99)
    assert wide.difference.low < narrow.difference.low < narrow.difference.high < wide.difference.high


@pytest.mark.parametrize("seed", range(3))
def test_the_last_digits_of_a_sum_decide_no_tie(seed: int) -> None:
    exact = np.random.default_rng(seed).integers(0, 4, size=(12, 1)).astype(np.float64)
    # Thirds are not exact, and their sums end in other digits than those of whole numbers.
    (found,) = paired_bootstrap(exact / 3, exact / 3, [Mean(0)], resamples=2_000)
    (expected,) = paired_bootstrap(exact, exact, [Mean(0)], resamples=2_000)
    assert [3 * found.first.low, 3 * found.first.high] == pytest.approx(
        [expected.first.low, expected.first.high], abs=1e-9
    )
