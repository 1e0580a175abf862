"""Autocut: cut before a jump of the scores (Weaviate; heiDS 2025 uses one jump)."""

from __future__ import annotations

from ranking.truncation.ranked_list import RankedScores, checked, rounding


def autocut(ranked: RankedScores, jumps: int = 1, *, strict_compat: bool = False) -> int:
    """How many scores stand before the `jumps`-th jump.

    Scores and places are both scaled to 0 to 1. A jump is a place where the scores run further ahead of a
    straight line than at both of its neighbours; the last place, than at the two before it.

    Args:
        ranked: Descending scores, shape (sentences,).
        jumps: Which jump cuts; with fewer, all are kept.
        strict_compat: Give the value of the released code, where rounding makes jumps too.

    Raises:
        ValueError: A score is not finite.
        ZeroDivisionError: With `strict_compat`, all of two or more scores are equal.
    """
    values = checked(ranked)
    size = values.size
    if strict_compat:
        return _released(values.tolist(), jumps)
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


def _released(values: list[float], jumps: int) -> int:
    size = len(values)
    if size <= 1:
        return size
    first, last = values[0], values[-1]
    ahead = [(value - first) / (last - first) - place / (size - 1) for place, value in enumerate(values)]
    for place in range(1, size):
        before = ahead[place - 1]
        beside = ahead[place + 1] if place < size - 1 else ahead[place - 2]
        if ahead[place] > before and ahead[place] > beside:
            jumps -= 1
            if jumps == 0:
                return place
    return size
