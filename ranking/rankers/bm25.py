"""BM25 over the sentences of one document."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ranking.cutoffs import Cutoff, TopK
from ranking.rankers.ranker import Ranked, Scores

BM25 = "bm25"


class Bm25Ranker:
    """Lexical: BM25 (k1 1.5, b 0.75) with Snowball stems and without English stop words.

    Its scores are non-negative, not logits: they order sentences and are not probabilities. A sentence
    that shares no word with the query has 0. Texts are never truncated.
    """

    identity = BM25

    def __init__(self, cutoff: Cutoff | None = None) -> None:
        self.cutoff: Cutoff = cutoff or TopK(k=3)

    def rank(self, query: str, sentences: Sequence[str]) -> Ranked:
        scores = bm25_scores(query, sentences)
        return Ranked(scores, unrelated=tuple(np.flatnonzero(scores == 0).tolist()))


def bm25_scores(query: str, sentences: Sequence[str]) -> Scores:
    """BM25 of each sentence, with word frequencies of these sentences alone; shape (sentences,)."""
    from bm25s import BM25 as Index

    asked, *tokens = _tokens([query, *sentences])
    if not asked or not any(tokens):
        # The index divides by the mean length.
        return np.zeros(len(sentences), dtype=np.float32)
    index = Index(k1=1.5, b=0.75)
    index.index(tokens, show_progress=False)
    return np.asarray(index.get_scores(asked), dtype=np.float32)


def _tokens(texts: Sequence[str]) -> list[list[str]]:
    """Stems of two letters or more, stop words left out."""
    from bm25s import tokenize
    from Stemmer import Stemmer

    # A stemmer must not be shared by threads, and is made in a microsecond.
    stemmer = Stemmer("english")
    found: list[list[str]] = tokenize(
        list(texts), stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False
    )
    return found
