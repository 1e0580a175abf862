"""Truncations: where a ranked list is cut, by its gaps (autocut, elbow) or by its tail (surprise).

Each takes scores from the highest to the lowest, finite, shape (sentences,).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ranking.prefixes import Floats
from ranking.truncation.tails import Tail, fit_tail, misfit_of, released_theta

MAX_WINDOWS = 128
"""Fits of one list; of longer ones, windows are tried at equal distances."""

_ROUNDING = 1e-12


def at_least_one(kept: int, size: int) -> int:
    """Between 1 and all; 0 of an empty list."""
    return min(max(kept, 1), size)


def rounding(values: Floats) -> float:
    """Differences up to this size are rounding errors of scores of this magnitude."""
    return _ROUNDING * max(abs(float(values[0])), abs(float(values[-1])))


@lru_cache(maxsize=1024)
def places(size: int) -> Floats:
    """From 0 to 1 in equal steps, shape (size,), for two sentences or more. Not to be written to."""
    found: Floats = np.arange(size, dtype=np.float64) / (size - 1)
    found.flags.writeable = False
    return found


def windows(largest: int, least: int) -> list[int]:
    """Sizes to fit, from the largest down to the least: all, or `MAX_WINDOWS` where there are more."""
    count = largest - least + 1
    if count <= MAX_WINDOWS:
        return list(range(largest, least - 1, -1))
    return [largest - place * (count - 1) // (MAX_WINDOWS - 1) for place in range(MAX_WINDOWS)]


def autocut(values: Floats, jumps: int = 1) -> int:
    """Number of scores before the `jumps`-th jump; all if there are fewer jumps.

    Scores and places are both scaled to 0 to 1. A jump is a place where the scores run further ahead of a
    straight line than at both of its neighbours; the last place, than at the two before it.
    """
    size = values.size
    range_ = float(values[-1]) - float(values[0]) if size else 0.0
    if range_ == 0 or size <= 2:
        return size
    # How much further ahead of the line a place is than the one before it.
    steps = (values[1:] - values[:-1]) / range_ - 1 / (size - 1)
    tolerance = rounding(values) / abs(range_)
    found = ((steps[:-1] > tolerance) & (steps[1:] < -tolerance)).nonzero()[0]
    if found.size >= jumps:
        return int(found[jumps - 1]) + 1
    last, before = float(steps[-1]), float(steps[-2])
    if found.size == jumps - 1 and last > tolerance and last + before > tolerance:
        return size - 1
    return size


def autocut_star(values: Floats) -> int:
    """Everything before the first gap that is more than a standard deviation wider than the mean gap.

    Without such a gap, the best score alone.
    """
    size = values.size
    if size < 2:
        return size
    gaps = values[1:] - values[:-1]
    mean = float(values[-1] - values[0]) / (size - 1)
    apart = gaps - mean
    deviation = math.sqrt(float(apart @ apart) / (size - 1))
    # Of no true value, argmax is 0.
    return 1 + int((apart < -deviation - rounding(values)).argmax())


def elbow(values: Floats) -> int:
    """Everything before the point furthest from the line through the first and the last score.

    The point itself is not kept, and of equally far ones the first cuts. Distances count on both sides of the
    line, so a bulge can cut as well.
    """
    size = values.size
    if size <= 2:
        return min(size, 1)
    first, last = float(values[0]), float(values[-1])
    away = np.abs(values - places(size) * (last - first) - first)
    # Distances that differ by rounding alone are equal, as all are where every point is on the line.
    furthest = int((away >= away.max() - rounding(values)).argmax())
    return at_least_one(furthest, size)


class Fitted(NamedTuple):
    """Result of `released_fit`, for scores divided by the highest one.

    Attributes:
        window: J, the size of the first window from the lowest score up that fits worse than all; None
            where every one fits as well.
        reference: W2, the misfit of all scores.
        misfit: W2 of the window.
        threshold: tau, the lowest score over the highest.
        below: Scores of the ascending list that are less surprising than `threshold`.
    """

    window: int | None
    theta: float
    xi: float
    reference: float
    misfit: float
    threshold: float
    below: int


def surprise(values: Floats) -> int:
    """Window minus the scores in it that are not surprising; 1 where every window fits.

    The threshold of surprise is the lowest score divided by the highest one, as released: it is not a
    probability. Scores whose highest is not above 0 have no such ratio; all of them are kept. Of more than
    130 scores not every window is tried, so that 20,000 take seconds.
    """
    size = values.size
    if size < 2:
        return size
    if values[0] <= 0:
        return size
    found = released_fit(values)
    kept = 1 if found.window is None else found.window - found.below
    return at_least_one(kept, size)


def released_fit(ranked: Floats) -> Fitted:
    """Fit every window down to the first that fits worse than all scores.

    Args:
        ranked: Descending scores, the highest above 0, shape (sentences,), two or more.
    """
    scaled = ranked[::-1] / ranked[0]
    excesses = scaled - scaled[0]
    threshold = float(scaled[0])
    theta, xi, reference = _window(excesses)
    misfit = reference
    for size in windows(ranked.size - 1, 2):
        theta, xi, misfit = _window(excesses[:size])
        if misfit > reference:
            below = int(np.searchsorted(surprises(excesses, theta, xi), threshold))
            return Fitted(size, theta, xi, reference, misfit, threshold, below)
    return Fitted(None, theta, xi, reference, misfit, threshold, 0)


def surprises(excesses: Floats, theta: float, xi: float) -> Floats:
    """Minus the log of the probability of a higher excess, shape (scores,)."""
    return np.asarray(np.log1p(-theta * excesses) / xi)


def _window(excesses: Floats) -> tuple[float, float, float]:
    """Theta, xi, and the misfit W2."""
    if excesses[-1] == 0:
        # Nothing to fit, and nothing that fits worse than anything else.
        return 0.0, 1.0, 0.0
    theta = released_theta(excesses)
    logs = np.log1p(-theta * excesses)
    xi = float(logs.mean())
    return theta, xi, misfit_of(-np.expm1(-logs / xi))


MIN_SCORES = 8
"""With fewer scores, a tail is not fitted and all are kept."""

_BELOW_THE_LOWEST = 1e-9


def surprise_clean(values: Floats, alpha: float = 0.05) -> int:
    """How many scores are so high that the tail of the scores reaches them with a probability of `alpha`.

    The greater alpha is, between 0 and 1, the more are kept.

    Equal scores have no tail, and all of them are kept.
    """
    size = values.size
    if size < MIN_SCORES or values[0] == values[-1]:
        return size
    excesses = (values - values[-1])[::-1] / float(values[0] - values[-1])
    surprises = tail_of(excesses).minus_log_survival(excesses)
    return at_least_one(int((surprises >= -math.log(alpha)).sum()), size)


def tail_of(excesses: Floats) -> Tail:
    """The best fit of all fits that leave out up to half of the scores, from the best down.

    Args:
        excesses: Over the lowest score, ascending, shape (scores,), eight or more.
    """
    size = excesses.size
    above = excesses + _BELOW_THE_LOWEST
    least = max(-(-size // 2), MIN_SCORES - 1) + 1
    tails = [
        (tail.misfit(above[:window]), -window, tail)
        for window in windows(size, least)
        if above[window - 1] > above[0]
        for tail in [fit_tail(above[:window])]
    ]
    return min(tails)[2] if tails else fit_tail(above)
