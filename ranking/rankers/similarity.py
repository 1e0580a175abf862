"""Similarity of meaning: the inner product of normalised sentence vectors (heiDS at ArchEHR-QA 2025)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ranking.cutoffs import Cutoff, TopK
from ranking.encoding.vectors import EncoderVectors, SourceVectors, TextVectors, shared_vectors
from ranking.rankers.ranker import Ranked

SIMILARITY = "similarity"

OF_A_FOLDER = f"{SIMILARITY}:"
"""Before the folder of a sentence encoder."""


class SimilarityRanker:
    """Scores are cosines, from -1 to 1: no logits and no probabilities.

    The vectors of a document are kept for its next query. They need no index: the inner products
    of a query with 20,000 sentences take milliseconds, and they are exact.
    """

    def __init__(self, vectors: TextVectors | None = None, *, name: str = SIMILARITY) -> None:
        """Take the packaged encoder unless other vectors are given.

        Raises:
            WeightsError: The packaged encoder is not installed.
        """
        self.cutoff: Cutoff = TopK(k=3)
        self._name = name
        self._vectors = vectors or shared_vectors()
        self.sources = SourceVectors(self._vectors)

    @classmethod
    def open(cls, folder: str) -> SimilarityRanker:
        return cls(EncoderVectors(folder), name=f"{OF_A_FOLDER}{Path(folder).name}")

    @property
    def identity(self) -> str:
        return f"{self._name}@{hashlib.sha256(self._vectors.identity.encode()).hexdigest()[:12]}"

    def rank(self, query: str, sentences: Sequence[str]) -> Ranked:
        (ranked,) = self.rank_many([query], sentences)
        return ranked

    def rank_many(self, queries: Sequence[str], sentences: Sequence[str]) -> list[Ranked]:
        asked = self._vectors.embed(queries)
        document = self.sources.embed(sentences)
        cut = tuple(np.flatnonzero(document.cut).tolist())
        return [
            # Row by row: a matrix product may round equal rows differently, and equal sentences would move.
            Ranked(np.einsum("ij,j->i", document.vectors, query), cut, bool(query_cut))
            for query, query_cut in zip(asked.vectors, asked.cut, strict=True)
        ]
