"""Several rankings of documents made one (Cormack, Clarke and Buettcher 2009)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

RRF_K = 60
"""Of the paper; a larger one lets places far down count for more."""


class Fused(NamedTuple):
    """A document with the sum of 1 / (k + rank) over the rankings that hold it."""

    id: str
    score: float


def reciprocal_rank_fusion(rankings: Sequence[Sequence[str]], k: int = RRF_K) -> list[Fused]:
    """Fuse rankings by the places of their documents alone; scores of different retrievers never meet.

    Args:
        rankings: Ids, best first. Of an id that stands twice in one of them, the first place counts.
        k: At least 0.

    Returns:
        Every id once, best first. Of equal scores the one that comes first stays first, reading the rankings
        one after the other.
    """
    shares: dict[str, list[float]] = {}
    for ranking in rankings:
        for rank, id_ in enumerate(dict.fromkeys(ranking), start=1):
            shares.setdefault(id_, []).append(1 / (k + rank))
    # Exact sums: with plain ones a tie would depend on the order of its terms.
    fused = [Fused(id_, math.fsum(parts)) for id_, parts in shares.items()]
    return sorted(fused, key=lambda one: -one.score)
