"""Surprise with a threshold that is a probability: the principled variant of `surprise`."""

from __future__ import annotations

import math

import numpy as np

from ranking.prefixes import Floats
from ranking.truncation.ranked_list import RankedScores, at_least_one, checked

FEWEST = 8
"""Of fewer scores no tail is fitted, and all are kept."""

_BELOW_THE_LOWEST = 1e-9
_LEAST = 1e-300


def surprise_clean(ranked: RankedScores, alpha: float = 0.05) -> int:
    """How many scores are so high that a score of the fitted tail reaches them with at most `alpha`.

    Up to half of the scores, from the best down, are left out of the fit where the others then fit better by
    the criterion of Cramér and von Mises.

    Args:
        ranked: Descending scores, shape (sentences,).
        alpha: Between 0 and 1.

    Raises:
        ValueError: A score is not finite.
    """
    values = checked(ranked)
    size = values.size
    if size < FEWEST or values[0] == values[-1]:
        return size
    return at_least_one(int((_surprises(values) >= -math.log(alpha)).sum()), size)


def _surprises(values: Floats) -> Floats:
    """Minus the log of the probability of each score or a higher one, shape (sentences,)."""
    from scipy.stats import genpareto

    size = values.size
    excesses = values[::-1] - values[-1]
    best = (math.inf, 0.0, 1.0)
    for window in range(size, max(-(-size // 2), FEWEST - 1), -1):
        fitted = excesses[:window] + _BELOW_THE_LOWEST
        shape, _, scale = genpareto.fit(fitted, floc=0)
        misfit = _misfit(genpareto.cdf(fitted, shape, scale=scale))
        if misfit < best[0]:
            best = (misfit, shape, scale)
    _, shape, scale = best
    tail = genpareto.sf(excesses[::-1], shape, scale=scale)
    return np.asarray(-np.log(np.maximum(tail, _LEAST)))


def _misfit(reached: Floats) -> float:
    size = reached.size
    missed = reached - (2 * np.arange(1, size + 1) - 1) / (2 * size)
    return float(missed @ missed) + 1 / (12 * size)
