from __future__ import annotations

import math

import pytest

from evals.statistics.bootstrap import seed_interval


def test_the_interval_is_students_on_the_mean() -> None:
    interval = seed_interval([1.0, 2.0, 3.0])
    assert interval.value == pytest.approx(2)
    # t(0.975, 2) = 4.30265, s = 1.
    assert interval.high == pytest.approx(2 + 4.30265 / math.sqrt(3), abs=1e-4)
    assert interval.low == pytest.approx(2 - 4.30265 / math.sqrt(3), abs=1e-4)
    assert interval.method == "t"


def test_of_one_repetition_there_is_none() -> None:
    interval = seed_interval([5.0])
    assert interval.value == 5
    assert math.isnan(interval.low) and math.isnan(interval.high)
    assert interval.method == "none"


def test_an_interval_does_not_leave_what_a_share_can_be() -> None:
    interval = seed_interval([80.0, 90.0, 100.0], bounds=(0, 100))
    assert interval.high == 100
    assert interval.low == pytest.approx(90 - 4.30265 * 10 / math.sqrt(3), abs=1e-3)
