from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from evals.statistics.case_totals import Mean
from evals.statistics.sign_flip import swap_test
from tests.evals.statistics.sides import STATISTICS, two_sides


def test_few_cases_are_exchanged_in_every_way() -> None:
    first, second = two_sides(6)
    for statistic, found in zip(STATISTICS, swap_test(first, second, STATISTICS), strict=True):
        differences = []
        for exchanged in product([False, True], repeat=6):
            mask = np.array(exchanged)[:, None]
            one, other = np.where(mask, second, first), np.where(mask, first, second)
            differences.append(
                abs(float(statistic.of(other.sum(axis=0), 6) - statistic.of(one.sum(axis=0), 6)))
            )
        as_large = sum(difference >= differences[0] - 1e-9 for difference in differences)
        assert found == pytest.approx(as_large / 64)


def test_many_cases_agree_with_scipy() -> None:
    first, second = two_sides(40)
    second[:, 3] += 8
    expected = stats.permutation_test(
        (second[:, 3] - first[:, 3],),
        np.mean,
        permutation_type="samples",
        n_resamples=9_999,
        rng=np.random.default_rng(3),
    )
    assert swap_test(first, second, [Mean(3)])[0] == pytest.approx(float(expected.pvalue), abs=0.02)


def test_a_certain_difference_has_the_least_p_that_so_many_exchanges_can_show() -> None:
    first, second = two_sides(60)
    second[:, 3] = first[:, 3] + 50
    assert swap_test(first, second, [Mean(3)], resamples=999) == [1 / 1000]


def test_identical_runs_have_a_p_value_of_1() -> None:
    first, _ = two_sides(40)
    assert swap_test(first, first.copy(), STATISTICS) == [1.0] * len(STATISTICS)


def test_cases_that_do_not_differ_do_not_matter() -> None:
    first, second = two_sides(8)
    same = two_sides(100, seed=1)[0]
    alone = swap_test(first, second, [Mean(3)])
    assert swap_test(np.vstack([first, same]), np.vstack([second, same]), [Mean(3)]) == alone


def test_under_the_null_hypothesis_p_values_are_uniform() -> None:
    found = [
        swap_test(*two_sides(30, seed), [STATISTICS[2]], resamples=199, seed=seed)[0] for seed in range(300)
    ]
    assert stats.kstest(found, "uniform").pvalue > 0.001
