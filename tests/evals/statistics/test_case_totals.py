from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.statistics.case_totals import PERCENT, Mean, MeanOf, Pooled
from ranking.measures import PARTS, Counts, EmptyRule, micro

COUNTS = st.tuples(*[st.integers(0, 5)] * 3).map(lambda t: Counts(min(t), *t[1:]))
RULES: tuple[EmptyRule, ...] = ("perfect", "zero")


@pytest.mark.parametrize("rule", RULES)
@given(cases=st.lists(COUNTS, min_size=1, max_size=5))
def test_pooled_is_the_micro_average_of_the_scorer(rule: EmptyRule, cases: list[Counts]) -> None:
    totals = np.asarray(cases, dtype=np.float64).sum(axis=0)
    found = [float(Pooled(0, part, rule, PERCENT).of(totals, len(cases))) for part in PARTS]
    assert found == pytest.approx([100 * value for value in micro(cases, rule)])


def test_a_mean_of_statistics() -> None:
    totals = np.array([1.0, 2.0, 4.0, 30.0])
    assert float(MeanOf((Pooled(0, "recall", "zero", PERCENT), Mean(3))).of(totals, 10)) == pytest.approx(
        (25 + 3) / 2
    )
