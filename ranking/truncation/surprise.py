"""Surprise: cut by the tail of the scores (Bahri et al. 2023; heiDS 2025), as the released code computes it.

A generalised Pareto distribution is fitted to what the scores exceed the lowest one by. The best scores are
left out of the fit one by one, until it fits worse than that of all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ranking.prefixes import Floats
from ranking.truncation.pareto import released_theta
from ranking.truncation.ranked_list import RankedScores, at_least_one, checked, windows

Fit = Callable[[Floats], float]
"""Excesses, ascending from 0, to theta < 0, in F(e) = 1 - (1 - theta e)^(-1/xi)."""


class Fitted(NamedTuple):
    """What `released_fit` finds, all of scores over the highest one.

    Attributes:
        window: J, the size of the first window from the lowest score up that fits worse than all; None
            where every one fits as well.
        theta: Of the distribution.
        xi: Its shape.
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


def surprise(ranked: RankedScores, *, strict_compat: bool = False) -> int:
    """Window minus the scores in it that are not surprising; 1 where every window fits.

    The threshold of surprise is the lowest score over the highest one, as released: it is no probability.
    Scores whose highest is not above 0 have no such ratio; all of them are kept. Of more than 130 scores not
    every window is tried, so that 20,000 take seconds.

    Args:
        ranked: Descending scores, shape (sentences,).
        strict_compat: Give the value of the released code, which can be 0 or less.

    Raises:
        ValueError: A score is not finite; with `strict_compat`, also where the highest is not above 0.
        IndexError: With `strict_compat`, there are fewer than two scores.
    """
    values = checked(ranked)
    size = values.size
    if strict_compat and size < 2:
        raise IndexError(f"no window of {size} scores")
    if size < 2:
        return size
    if values[0] <= 0:
        if strict_compat:
            raise ValueError("the highest score is not above 0")
        return size
    found = released_fit(values)
    kept = 1 if found.window is None else found.window - found.below
    return kept if strict_compat else at_least_one(kept, size)


def released_fit(ranked: Floats, fit: Fit = released_theta) -> Fitted:
    """Fit every window down to the first that fits worse than all scores.

    Args:
        ranked: Descending scores, the highest above 0, shape (sentences,), two or more.
        fit: Finds theta.
    """
    scaled = ranked[::-1] / ranked[0]
    excesses = scaled - scaled[0]
    threshold = float(scaled[0])
    theta, xi, reference = _window(excesses, fit)
    misfit = reference
    for size in windows(ranked.size - 1, 2):
        theta, xi, misfit = _window(excesses[:size], fit)
        if misfit > reference:
            below = int(np.searchsorted(surprises(excesses, theta, xi), threshold))
            return Fitted(size, theta, xi, reference, misfit, threshold, below)
    return Fitted(None, theta, xi, reference, misfit, threshold, 0)


def surprises(excesses: Floats, theta: float, xi: float) -> Floats:
    """Minus the log of the probability of a higher excess, shape (scores,)."""
    return np.asarray(np.log1p(-theta * excesses) / xi)


def _window(excesses: Floats, fit: Fit) -> tuple[float, float, float]:
    """Theta, xi, and the misfit W2 of Cramér and von Mises (Choulakian and Stephens 2001)."""
    size = excesses.size
    if excesses[-1] == 0:
        # Nothing to fit, and nothing that fits worse than anything else.
        return 0.0, 1.0, 0.0
    theta = fit(excesses)
    logs = np.log1p(-theta * excesses)
    xi = float(logs.mean())
    expected = (2 * np.arange(1, size + 1) - 1) / (2 * size)
    missed = -np.expm1(-logs / xi) - expected
    return theta, xi, float(missed @ missed) + 1 / (12 * size)
