"""A ranker of this folder's tests: its logits are easy to foresee."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ranking.cutoffs import Cutoff, FixedThreshold
from ranking.rankers.ranker import Ranked


class WordRanker:
    """A sentence has a logit of -4, and 4 more for each word that it shares with the query."""

    identity = "words@1"

    def __init__(self, cutoff: Cutoff | None = None) -> None:
        self.cutoff: Cutoff = cutoff or FixedThreshold(tau=0.4)
        self.queries: list[str] = []

    def rank(self, query: str, sentences: Sequence[str]) -> Ranked:
        self.queries.append(query)
        asked = set(query.split())
        scores = [4.0 * len(asked & set(sentence.split())) - 4 for sentence in sentences]
        cut = tuple(place for place, sentence in enumerate(sentences) if len(sentence) > 200)
        return Ranked(np.array(scores, dtype=np.float32), cut, query_cut=len(query) > 200)


class SourceWordRanker(WordRanker):
    """Reads a document for several queries at once, and remembers how often it did."""

    def __init__(self, cutoff: Cutoff | None = None) -> None:
        super().__init__(cutoff)
        self.readings = 0

    def rank_many(self, queries: Sequence[str], sentences: Sequence[str]) -> list[Ranked]:
        self.readings += 1
        return [self.rank(query, sentences) for query in queries]
