"""Measures of one question's ranked documents, each relevant or not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import log2
from typing import Literal

from evals.bioasq.overlap import Scores, scores

DEPTH = 10
"""Documents and snippets that BioASQ takes."""

Divisor = Literal["capped", "gold", "ten"]
"""What average precision divides by: at most 10, as the scorer does for years from BioASQ 6 on; all relevant
ones, as for BioASQ 1 and 2, and as everybody else does; always 10, as for BioASQ 3 to 5."""

_DIVIDE_BY: Mapping[Divisor, Callable[[int], int]] = {
    "capped": lambda relevant: min(DEPTH, relevant),
    "gold": lambda relevant: relevant,
    "ten": lambda relevant: DEPTH,
}


def average_precision(ranked: Sequence[str], relevant: Collection[str], divisor: Divisor = "capped") -> float:
    """Sum of the precision at the rank of each hit, over what `divisor` says.

    Args:
        ranked: Ids, best first, none twice; cut it first where a depth is wanted.
        relevant: Ids; 0 where there are none.
        divisor: See `Divisor`.
    """
    if not relevant:
        return 0.0
    hits, total = 0, 0.0
    for rank, document in enumerate(ranked, start=1):
        if document in relevant:
            hits += 1
            total += hits / rank
    return total / _DIVIDE_BY[divisor](len(relevant))


def ndcg(ranked: Sequence[str], relevant: Collection[str], depth: int = DEPTH) -> float:
    """Normalised discounted cumulative gain of the first documents (Järvelin and Kekäläinen 2002)."""
    gain = sum(1 / log2(rank + 1) for rank, one in enumerate(ranked[:depth], start=1) if one in relevant)
    ideal = sum(1 / log2(rank + 1) for rank in range(1, min(depth, len(relevant)) + 1))
    return gain / ideal if ideal else 0.0


def recall(ranked: Sequence[str], relevant: Collection[str], depth: int) -> float:
    """Share of the relevant documents that are among the first."""
    return sum(one in relevant for one in ranked[:depth]) / len(relevant) if relevant else 0.0


def document_scores(given: Sequence[str], relevant: Collection[str]) -> Scores:
    """Of documents as a set; none twice."""
    return scores(sum(one in relevant for one in given), len(given), len(relevant))
