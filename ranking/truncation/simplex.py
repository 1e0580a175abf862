"""The simplex method of Nelder and Mead (1965) in three dimensions, as `scipy.optimize.fmin` takes its steps.

The released surprise depends on where that optimiser stops, which often is short of the optimum. The
library's own spends most of a fit's time around the loss, and so more than there is for a list.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter

Loss = Callable[[float, float, float], float]

Corner = tuple[float, float, float, float]
"""The loss, and where it is."""

_STEP = 0.05
_STEP_FROM_ZERO = 0.00025
_TOLERANCE = 1e-4
_MOST = 600
_HEIGHT = itemgetter(0)


def minimize(
    loss: Loss,
    start: tuple[float, float, float],
    is_settled: Callable[[list[Corner]], bool] = lambda corners: False,
) -> tuple[float, float, float]:
    """Where the simplex has shrunk to nothing, or 600 steps or calls are used up.

    Args:
        loss: Finite, or infinite where it has no value.
        start: The first corner; each other one is a small step away along one axis.
        is_settled: Whether the four corners, the best one first, tell all that is asked.
    """
    corners = [(loss(*at), *at) for at in _corners(start)]
    corners.sort(key=_HEIGHT)
    calls, steps = 4, 1
    while calls < _MOST and steps < _MOST and not _is_small(corners) and not is_settled(corners):
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
