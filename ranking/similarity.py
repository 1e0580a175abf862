"""Similarity of meaning: the inner product of normalised sentence vectors (heiDS at ArchEHR-QA 2025)."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ranking.cutoffs import Cutoff, TopK
from ranking.ranker import Ranked, Scores
from ranking.source_vectors import SourceVectors
from ranking.vectors import EncoderVectors, TextVectors, Vectors, shared_vectors

SIMILARITY = "similarity"

OF_A_FOLDER = f"{SIMILARITY}:"
"""Before the folder of a sentence encoder."""

_SENTENCES_KEPT = 100_000
"""In memory, of the documents asked last: 150 MB of vectors of 384 numbers."""


class SimilarityRanker:
    """Scores are cosines, from -1 to 1: no logits and no probabilities.

    The vectors of a document are kept for its next query. There is no index beside them: the inner products
    of a query with 20,000 sentences take milliseconds, and they are exact.
    """

    def __init__(
        self, vectors: TextVectors | None = None, cutoff: Cutoff | None = None, *, name: str = SIMILARITY
    ) -> None:
        """Take the packaged encoder, and the best three, unless others are given.

        Raises:
            WeightsError: The packaged encoder is not installed.
        """
        self.cutoff: Cutoff = cutoff or TopK(k=3)
        self._name = name
        self._vectors = vectors or shared_vectors()
        self._documents: OrderedDict[str, tuple[SourceVectors, int]] = OrderedDict()
        self._folder: Path | None = None
        self._lock = threading.Lock()

    @classmethod
    def open(cls, folder: str) -> SimilarityRanker:
        """One with the sentence encoder of a folder.

        Raises:
            WeightsError: The folder holds no encoder, or one whose pooling is not supported.
        """
        vectors = EncoderVectors.open(folder)
        return cls(vectors, name=f"{OF_A_FOLDER}{Path(folder).name}")

    @property
    def identity(self) -> str:
        """Name of the ranker and hash of what makes its vectors."""
        return f"{self._name}@{hashlib.sha256(self._vectors.identity.encode()).hexdigest()[:12]}"

    def keep_sources(self, folder: Path) -> None:
        """Keep vectors of documents in a folder from now on, and look there first."""
        self._folder = folder

    def rank(self, query: str, sentences: Sequence[str]) -> Ranked:
        """Score every sentence."""
        (ranked,) = self.rank_many([query], sentences)
        return ranked

    def rank_many(self, queries: Sequence[str], sentences: Sequence[str]) -> list[Ranked]:
        """As `rank` for each query."""
        asked = self._vectors.embed(queries)
        document = self._document(sentences).source()
        cut = tuple(np.flatnonzero(document.cut).tolist())
        return [
            Ranked(_products(document.vectors, query), cut, bool(query_cut))
            for query, query_cut in zip(asked.vectors, asked.cut, strict=True)
        ]

    def _document(self, sentences: Sequence[str]) -> SourceVectors:
        """Kept from before, or new; the ones asked longest ago make room."""
        key = hashlib.sha256(json.dumps(list(sentences)).encode()).hexdigest()
        with self._lock:
            known = self._documents.pop(key, None)
            document = known[0] if known else SourceVectors(self._vectors, sentences, self._folder)
            self._documents[key] = (document, len(sentences))
            while len(self._documents) > 1 and self._kept() > _SENTENCES_KEPT:
                self._documents.popitem(last=False)
        return document

    def _kept(self) -> int:
        return sum(size for _, size in self._documents.values())


def _products(vectors: Vectors, query: Vectors) -> Scores:
    # Row by row: a matrix product may round equal rows differently, and equal sentences would change places.
    return np.asarray(np.einsum("ij,j->i", vectors, query), dtype=np.float32)
