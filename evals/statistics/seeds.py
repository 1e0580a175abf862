"""What a figure of repeated trainings may be, from as many as there are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from evals.statistics.bootstrap import LEVEL, Interval


def seed_interval(
    values: Sequence[float], level: float = LEVEL, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> Interval:
    """Mean of one value a seed, with Student's t-interval: mean +- t * s / sqrt(n), n - 1 degrees of freedom.

    It tells how much weights and order matter, not how much the cases do.

    Args:
        values: At least one. Of one there is no interval.
        level: Probability that the interval shall cover the mean over all seeds.
        bounds: What the figure cannot leave; the interval is cut there.
    """
    mean = float(np.mean(values))
    count = len(values)
    if count < 2:
        return Interval(mean, np.nan, np.nan, "none")
    half = float(stdtrit(count - 1, (1 + level) / 2) * np.std(values, ddof=1) / np.sqrt(count))
    lowest, highest = bounds
    return Interval(mean, max(mean - half, lowest), min(mean + half, highest), "t")
