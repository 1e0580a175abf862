"""How good a ranking of documents is, where each is relevant or not."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

DEPTH = 10
"""Documents that BioASQ takes."""


def average_precision(ranked: Sequence[str], relevant: Collection[str], depth: int = DEPTH) -> float:
    """Sum of the precisions at the relevant places of the first `depth`, over min(depth, relevant documents).

    BioASQ's definition; `AP@10` of trec_eval divides by all relevant documents, also where there are more
    than ten.

    Args:
        ranked: Ids, best first, none twice.
        relevant: Ids; without any the value is 0.
        depth: Places that count.
    """
    wanted = frozenset(relevant)
    found = 0
    total = 0.0
    for rank, id_ in enumerate(ranked[:depth], start=1):
        if id_ in wanted:
            found += 1
            total += found / rank
    return total / min(depth, len(wanted)) if wanted else 0.0


def recall(ranked: Sequence[str], relevant: Collection[str], depth: int = DEPTH) -> float:
    """Share of the relevant documents among the first `depth`; 0 where none is relevant."""
    wanted = frozenset(relevant)
    return len(wanted.intersection(ranked[:depth])) / len(wanted) if wanted else 0.0


def ndcg(ranked: Sequence[str], relevant: Collection[str], depth: int = DEPTH) -> float:
    """Normalised discounted cumulative gain with gain 1 and discount log2(rank + 1), as `nDCG` of trec_eval.

    It is 0 where none is relevant.
    """
    wanted = frozenset(relevant)
    gains = [_discounted(rank) for rank, id_ in enumerate(ranked[:depth], start=1) if id_ in wanted]
    ideal = [_discounted(rank) for rank in range(1, min(depth, len(wanted)) + 1)]
    return math.fsum(gains) / math.fsum(ideal) if ideal else 0.0


def _discounted(rank: int) -> float:
    return 1 / math.log2(rank + 1)
