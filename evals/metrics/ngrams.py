"""N-grams of token sequences, the stuff of BLEU, ROUGE and SARI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

Ngram = tuple[str, ...]


def count_ngrams(tokens: Sequence[str], order: int) -> Counter[Ngram]:
    """Count the n-grams of one order, in the order of their first appearance; none in a shorter text."""
    return Counter(zip(*(tokens[start:] for start in range(order)), strict=False))


def overlap(counts: Counter[Ngram], others: Counter[Ngram]) -> int:
    """Size of the multiset intersection: each n-gram counts as often as both have it."""
    get = others.get
    return sum(min(count, get(ngram, 0)) for ngram, count in counts.items())
