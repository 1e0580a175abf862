from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from evals.statistics.mcnemar import clustered_mcnemar


def test_a_table_worked_out_by_hand() -> None:
    # Surplus of the cases: 3, -1, 0, 2. (3 - 1 + 0 + 2)^2 = 16 over 9 + 1 + 0 + 4 = 14.
    found = clustered_mcnemar([3, 0, 1, 2], [0, 1, 1, 0])
    assert (found.only_first, found.only_second, found.cases) == (6, 2, 4)
    assert found.statistic == pytest.approx(16 / 14)
    assert found.p_value == pytest.approx(0.2850, abs=1e-4)
    # Two-sided binomial: 2 * (1 + 8 + 28) / 2^8.
    assert found.p_ignoring_clusters == pytest.approx(74 / 256)


@given(st.integers(0, 30), st.integers(0, 30))
def test_one_sentence_a_case_gives_mcnemars_own_statistic(b: int, c: int) -> None:
    found = clustered_mcnemar([1] * b + [0] * c, [0] * b + [1] * c)
    if b + c == 0:
        assert found.statistic is None
    else:
        assert found.statistic == pytest.approx((b - c) ** 2 / (b + c))
        assert found.p_value == pytest.approx(chi2.sf((b - c) ** 2 / (b + c), 1))


def test_sentences_that_change_together_are_weaker_evidence() -> None:
    together = clustered_mcnemar([5, 5, 5, 0], [0, 0, 0, 5])
    apart = clustered_mcnemar([1] * 15 + [0] * 5, [0] * 15 + [1] * 5)
    assert together.p_ignoring_clusters == apart.p_ignoring_clusters
    assert together.p_value > apart.p_value


@pytest.mark.parametrize("counts", [[], [0, 0], [2, 1]])
def test_as_many_gained_as_lost_in_every_case_is_no_difference(counts: list[int]) -> None:
    found = clustered_mcnemar(counts, counts)
    assert (found.statistic, found.p_value, found.p_ignoring_clusters) == (None, 1.0, 1.0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1))
def test_the_order_of_the_runs_does_not_matter(cases: list[tuple[int, int]]) -> None:
    first, second = zip(*cases, strict=True)
    one, other = clustered_mcnemar(first, second), clustered_mcnemar(second, first)
    assert (one.statistic, one.p_value) == (other.statistic, other.p_value)
    assert one.p_ignoring_clusters == pytest.approx(other.p_ignoring_clusters)
