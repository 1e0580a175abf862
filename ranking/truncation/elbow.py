"""Elbow: cut where the scores are furthest from the straight line between their ends (heiDS 2025)."""

from __future__ import annotations

import numpy as np

from ranking.prefixes import Floats
from ranking.truncation.ranked_list import RankedScores, at_least_one, checked, places, rounding


def elbow(ranked: RankedScores, *, strict_compat: bool = False) -> int:
    """Everything before the point furthest from the line through the first and the last score.

    The point itself is not kept. Distances count on both sides of the line, so a bulge can cut as well.

    Args:
        ranked: Descending scores, shape (sentences,).
        strict_compat: Give the value of the released code: 0 where all points are on the line, or wherever
            rounding puts one beside it.

    Raises:
        ValueError: A score is not finite.
    """
    values = checked(ranked)
    size = values.size
    if strict_compat:
        return _released(values)
    if size <= 2:
        return min(size, 1)
    first, last = float(values[0]), float(values[-1])
    away = np.abs(values - places(size) * (last - first) - first)
    furthest = int(away.argmax())
    return at_least_one(furthest if away[furthest] > rounding(values) else 0, size)


def _released(values: Floats) -> int:
    """Distances by projection: which of equal ones is the largest depends on the order of the operations."""
    size = values.size
    if size < 2:
        return 0
    points = np.column_stack([np.arange(size), values])
    line = points[-1] - points[0]
    line = line / np.sqrt((line**2).sum())
    from_first = points - points[0]
    away = from_first - np.outer(from_first @ line, line)
    return int(np.argmax(np.sqrt((away**2).sum(axis=1))))
