"""What all truncations share: their input, and the lengths that they may give back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranking.prefixes import Floats, checked_scores

MOST_WINDOWS = 128
"""Fits of one list; of longer ones, windows are tried at equal distances."""

_ROUNDING = 1e-12

RankedScores = Sequence[float] | NDArray[np.floating[Any]]
"""Scores from the highest to the lowest, shape (sentences,). Equal ones keep their document order."""


def checked(ranked: RankedScores) -> Floats:
    """The scores as float64.

    Raises:
        ValueError: A score is not finite, or they are no list.
    """
    return checked_scores(ranked)


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
    """Sizes to fit, from the largest down to the least: all, or `MOST_WINDOWS` where there are more."""
    count = largest - least + 1
    if count <= MOST_WINDOWS:
        return list(range(largest, least - 1, -1))
    return [largest - place * (count - 1) // (MOST_WINDOWS - 1) for place in range(MOST_WINDOWS)]
