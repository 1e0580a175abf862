"""Surprise with a threshold that is a probability: the principled variant of `surprise`."""

from __future__ import annotations

import math

from ranking.prefixes import Floats
from ranking.truncation.ranked_list import RankedScores, at_least_one, checked, windows
from ranking.truncation.tail import Tail, fit_tail

FEWEST = 8
"""Of fewer scores no tail is fitted, and all are kept."""

_BELOW_THE_LOWEST = 1e-9


def surprise_clean(ranked: RankedScores, alpha: float = 0.05) -> int:
    """How many scores are so high that the tail of the scores reaches them with a probability of `alpha`.

    Equal scores have no tail, and all of them are kept.

    Args:
        ranked: Descending scores, shape (sentences,).
        alpha: Between 0 and 1; the greater, the more are kept.

    Raises:
        ValueError: A score is not finite.
    """
    values = checked(ranked)
    size = values.size
    if size < FEWEST or values[0] == values[-1]:
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
    least = max(-(-size // 2), FEWEST - 1) + 1
    tails = [
        (tail.misfit(above[:window]), -window, tail)
        for window in windows(size, least)
        if above[window - 1] > above[0]
        for tail in [fit_tail(above[:window])]
    ]
    return min(tails)[2] if tails else fit_tail(above)
