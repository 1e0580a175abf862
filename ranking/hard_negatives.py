"""Documents that a search finds and nobody called relevant, as what a reranker learns from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence

import numpy as np

HARDEST = 100
"""Places from which one half is drawn; the other half is from those behind them."""

LAST = 1000


def hard_negatives(
    found: Sequence[str], relevant: Collection[str], wanted: int, *, seed: int, question: str
) -> list[str]:
    """Draw documents that were found and are not relevant, in the order in which they were found.

    Half are from the first 100 places and half from those up to 1,000 (Verma et al. 2025 give no number). A
    half that has too few is filled from the other.

    Args:
        found: Ids, best first; places count before relevant ones are taken out.
        relevant: Ids that are never drawn.
        wanted: How many; fewer come back where there are fewer.
        seed: Of the draw.
        question: Its id: each question has a draw of its own, whichever others there are.
    """
    gold = frozenset(relevant)
    near = [place for place, id_ in enumerate(found[:HARDEST]) if id_ not in gold]
    far = [place for place, id_ in enumerate(found[HARDEST:LAST], start=HARDEST) if id_ not in gold]
    of_far = min(len(far), wanted // 2)
    of_near = min(len(near), wanted - of_far)
    of_far = min(len(far), wanted - of_near)
    generator = np.random.default_rng(_seed_of(seed, question))
    drawn = [*_draw(near, of_near, generator), *_draw(far, of_far, generator)]
    return [found[place] for place in sorted(drawn)]


def _draw(places: Sequence[int], count: int, generator: np.random.Generator) -> list[int]:
    if not count:
        return []
    return [places[int(one)] for one in generator.choice(len(places), size=count, replace=False)]


def shuffled(ids: Sequence[str], *, seed: int, question: str) -> list[str]:
    """In a random order, so that a place tells nothing."""
    order = np.random.default_rng(_seed_of(seed, f"{question}/order")).permutation(len(ids))
    return [ids[int(place)] for place in order]


def _seed_of(seed: int, question: str) -> int:
    return int.from_bytes(hashlib.sha256(json.dumps([seed, question]).encode()).digest()[:16])
