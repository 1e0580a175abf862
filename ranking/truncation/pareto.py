"""Generalised Pareto distributions fitted to excesses: ascending, from 0 up, shape (scores,)."""

from __future__ import annotations

import math
import sys

import numpy as np

from ranking.prefixes import Floats
from ranking.truncation.simplex import Corner, minimize

_EXPONENTIAL = 1e-6
_ENDING = -0.1
_PENALTY = 100 * math.log(sys.float_info.max)


def released_theta(excesses: Floats) -> float:
    """Theta = -shape / scale as heiDS has it from `scipy.stats.genpareto.fit(excesses, loc=0)`.

    There `loc` is where an optimiser of three parameters starts, not where it stays. It stops by its own
    rules, on short lists far from the best fit, and a tail that ends is then taken for an exponential one.
    Steps and loss are the same here; of 400 random lists, all were cut at the same length by both.

    Args:
        excesses: Not all of them 0.
    """
    shape, _, scale = minimize(_Loss(excesses), (1.0, 0.0, 1.0), _is_a_tail_that_ends)
    return min(-shape / scale, -_EXPONENTIAL / float(excesses.mean()))


def _is_a_tail_that_ends(corners: list[Corner]) -> bool:
    """Whether all four are: the steps do not come back from there, and how it ends is not asked."""
    return all(corner[1] < _ENDING for corner in corners)


class _Loss:
    """Minus the log-likelihood, and a penalty for each excess that the distribution cannot give."""

    def __init__(self, excesses: Floats) -> None:
        self._excesses = excesses
        self._size = excesses.size
        self._last = float(excesses[-1])
        self._buffer = np.empty_like(excesses)
        self._ones = np.ones_like(excesses)

    def __call__(self, shape: float, place: float, scale: float) -> float:
        if scale <= 0:
            return math.inf
        rate = shape / scale
        if place > 0 or rate == 0 or 1 + (self._last - place) * rate <= 0:
            return self._penalized(shape, rate, place, scale) + self._size * math.log(scale)
        logs = np.multiply(self._excesses, rate, self._buffer)
        np.add(logs, -place * rate, logs)
        np.log1p(logs, logs)
        return (shape + 1) * float(logs.dot(self._ones)) / shape + self._size * math.log(scale)

    def _penalized(self, shape: float, rate: float, place: float, scale: float) -> float:
        if rate == 0:
            return float(((self._excesses - place) / scale).sum())
        first = int(self._excesses.searchsorted(place))
        last = int(self._excesses.searchsorted(place - 1 / rate)) if rate < 0 else self._size
        possible = self._excesses[first:last]
        with np.errstate(divide="ignore", invalid="ignore"):
            # By rounding, the last one may stand at the end of the tail or beyond it.
            logs = np.log1p((possible - place) * rate)
        return (shape + 1) * float(logs.sum()) / shape + (self._size - possible.size) * _PENALTY
