"""Autocut*: cut at the first unusually wide gap (heiDS 2025)."""

from __future__ import annotations

import math

import numpy as np

from ranking.truncation.ranked_list import RankedScores, checked, rounding


def autocut_star(ranked: RankedScores, *, strict_compat: bool = False) -> int:
    """Everything before the first gap that is more than a standard deviation wider than the mean gap.

    Without such a gap, the best score alone.

    Args:
        ranked: Descending scores, shape (sentences,).
        strict_compat: Give the value of the released code, where rounding makes gaps too.

    Raises:
        ValueError: A score is not finite; with `strict_compat`, also where there are no gaps.
    """
    values = checked(ranked)
    size = values.size
    if size < 2:
        if strict_compat:
            raise ValueError(f"no gap between {size} scores")
        return size
    gaps = values[1:] - values[:-1]
    mean = float(values[-1] - values[0]) / (size - 1)
    apart = gaps - mean
    deviation = math.sqrt(float(apart @ apart) / (size - 1))
    if strict_compat:
        return 1 + int(np.argmax(gaps < np.mean(gaps) - np.std(gaps)))
    # Of no true value, argmax is 0.
    return 1 + int((apart < -deviation - rounding(values)).argmax())
