"""Generalised Pareto distributions fitted to the tail of scores, as released and by maximum likelihood."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from ranking.prefixes import Floats

_EXPONENTIAL = 1e-6
_ENDING_SHAPE = -0.1
_PENALTY = 100 * math.log(sys.float_info.max)


def released_theta(excesses: Floats) -> float:
    """Theta = -shape / scale as heiDS has it from `scipy.stats.genpareto.fit(excesses, loc=0)`.

    There `loc` is where an optimiser of three parameters starts, not where it stays. It stops by its own
    rules, on short lists far from the best fit, and a tail that ends is then taken for an exponential one.
    Steps and loss are the same here; of 400 random lists, all were cut at the same length by both.
    """
    shape, _, scale = minimize(_Loss(excesses), (1.0, 0.0, 1.0), _is_a_tail_that_ends)
    return min(-shape / scale, -_EXPONENTIAL / float(excesses.mean()))


def _is_a_tail_that_ends(corners: list[Corner]) -> bool:
    """Whether all four are: the steps do not come back from there, and how it ends is not asked."""
    return all(corner[1] < _ENDING_SHAPE for corner in corners)


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
            # Rounding may put the last one at the end of the tail or beyond it.
            logs = np.log1p((possible - place) * rate)
        return (shape + 1) * float(logs.sum()) / shape + (self._size - possible.size) * _PENALTY


Loss = Callable[[float, float, float], float]

Corner = tuple[float, float, float, float]
"""The loss, and where it is."""

_STEP = 0.05
_STEP_FROM_ZERO = 0.00025
_TOLERANCE = 1e-4
_MAX_STEPS = 600
_HEIGHT = itemgetter(0)


def minimize(
    loss: Loss,
    start: tuple[float, float, float],
    is_settled: Callable[[list[Corner]], bool] = lambda corners: False,
) -> tuple[float, float, float]:
    """Minimum at which the simplex has collapsed, or after 600 steps or calls."""
    corners = [(loss(*at), *at) for at in _corners(start)]
    corners.sort(key=_HEIGHT)
    calls, steps = 4, 1
    while calls < _MAX_STEPS and steps < _MAX_STEPS and not _is_small(corners) and not is_settled(corners):
        calls += _step(loss, corners)
        corners.sort(key=_HEIGHT)
        steps += 1
    return corners[0][1:]


def _step(loss: Loss, corners: list[Corner]) -> int:
    """Move the worst corner, or all but the best one; how many calls that took."""
    (best, x1, y1, z1), (_, x2, y2, z2), (second_worst, x3, y3, z3), (worst, x, y, z) = corners
    centre = ((x1 + x2 + x3) / 3, (y1 + y2 + y3) / 3, (z1 + z2 + z3) / 3)
    reflected = _beyond(loss, centre, (x, y, z), 1.0)
    height = reflected[0]
    if best <= height < second_worst:
        corners[3] = reflected
        return 1
    if height < best:
        further = _beyond(loss, centre, (x, y, z), 2.0)
        corners[3] = further if further[0] < height else reflected
        return 2
    outside = height < worst
    nearer = _beyond(loss, centre, (x, y, z), 0.5 if outside else -0.5)
    if nearer[0] <= height if outside else nearer[0] < worst:
        corners[3] = nearer
        return 2
    for place in (1, 2, 3):
        _, x, y, z = corners[place]
        x, y, z = x1 + 0.5 * (x - x1), y1 + 0.5 * (y - y1), z1 + 0.5 * (z - z1)
        corners[place] = (loss(x, y, z), x, y, z)
    return 5


def _beyond(
    loss: Loss, centre: tuple[float, float, float], worst: tuple[float, float, float], factor: float
) -> Corner:
    """From the worst corner through the centre, and so many times as far beyond it."""
    ahead = 1 + factor
    x = ahead * centre[0] - factor * worst[0]
    y = ahead * centre[1] - factor * worst[1]
    z = ahead * centre[2] - factor * worst[2]
    return (loss(x, y, z), x, y, z)


def _corners(start: tuple[float, float, float]) -> list[tuple[float, float, float]]:
    x, y, z = start
    moved = [(1 + _STEP) * value if value else _STEP_FROM_ZERO for value in start]
    return [start, (moved[0], y, z), (x, moved[1], z), (x, y, moved[2])]


def _is_small(corners: list[Corner]) -> bool:
    lowest, x, y, z = corners[0]
    if corners[3][0] - lowest > _TOLERANCE:
        return False
    return all(
        abs(one[1] - x) <= _TOLERANCE and abs(one[2] - y) <= _TOLERANCE and abs(one[3] - z) <= _TOLERANCE
        for one in corners[1:]
    )


_STEEPEST = 3
_FINE = np.linspace(0, 1, 13)
_ROUNDS = 3

# Minus theta times the mean: heavy tails, an exponential one, and towards tails that end.
_HEAVY = np.logspace(-6, _STEEPEST, 73)
_ENDING_TAILS = 1 - np.logspace(-3, -0.001, 40)[::-1]


class Tail(NamedTuple):
    """F(e) = 1 - (1 + shape e / scale)^(-1 / shape)."""

    shape: float
    scale: float

    def minus_log_survival(self, excesses: Floats) -> Floats:
        """-log(1 - F), shape (scores,); infinite beyond the end of a tail that has one."""
        with np.errstate(divide="ignore"):
            logs = np.log1p(np.maximum(self.shape * excesses / self.scale, -1.0))
        return np.asarray(logs / self.shape)

    def misfit(self, excesses: Floats) -> float:
        """W2 of ascending excesses."""
        return misfit_of(-np.expm1(-self.minus_log_survival(excesses)))


def misfit_of(reached: Floats) -> float:
    """W2 of Cramér and von Mises (Choulakian and Stephens 2001), of F at ascending excesses."""
    size = reached.size
    missed = reached - (2 * np.arange(1, size + 1) - 1) / (2 * size)
    return float(missed @ missed) + 1 / (12 * size)


def fit_tail(excesses: Floats) -> Tail:
    """Maximum likelihood, the shape given the ratio of shape and scale by its own maximum.

    The likelihood has no highest value for shapes under -1, nor, with an excess near 0, for ever steeper
    distributions: neither is looked at.

    Args:
        excesses: Above 0, ascending, shape (scores,).
    """
    mean = float(excesses.mean())
    scaled = excesses / mean
    ratios = np.concatenate([-_ENDING_TAILS[::-1] / scaled[-1], _HEAVY])
    shapes = _shapes(scaled, ratios)
    ratios = ratios[shapes >= -1]
    place = int(_loss(scaled, ratios).argmin())
    low, high = ratios[max(place - 1, 0)], ratios[min(place + 1, ratios.size - 1)]
    for _ in range(_ROUNDS):
        grid = low + (high - low) * _FINE
        place = int(_loss(scaled, grid).argmin())
        low, high = grid[max(place - 1, 0)], grid[min(place + 1, grid.size - 1)]
    ratio = float(grid[place])
    shape = float(np.log1p(ratio * scaled).mean())
    return Tail(shape, mean * shape / ratio)


def _shapes(scaled: Floats, ratios: Floats) -> Floats:
    return np.asarray(np.log1p(ratios[:, None] * scaled).mean(axis=1))


def _loss(scaled: Floats, ratios: Floats) -> Floats:
    """Minus the mean log-likelihood, up to a constant."""
    shapes = _shapes(scaled, ratios)
    return np.asarray(np.log(shapes / ratios) + shapes)
