"""Interfaces of document collections and their results."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cases.documents import Document


class Hit(NamedTuple):
    """A document that was found.

    Attributes:
        rank: From 1.
        score: Above 0; comparable within one query alone.
    """

    rank: int
    score: float
    document: Document


class Found(NamedTuple):
    """The best documents of a query, best first; each of shape (found,).

    Attributes:
        numbers: Of the documents, in the order of the collection, from 0.
        scores: Of words, all above 0; of vectors, cosines.
    """

    numbers: NDArray[np.int64]
    scores: NDArray[np.float32]

    def best(self, k: int) -> Found:
        """The `k` best; equals stay in their order."""
        numbers, scores = self
        if scores.size > k:
            kept = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
            numbers, scores = numbers[kept], scores[kept]
        order = np.argsort(-scores, kind="stable")[:k]
        return Found(numbers[order], scores[order])

    def merge(self, first: int, scores: NDArray[np.float32], k: int, above: float = -np.inf) -> Found:
        """The `k` best of these and of further documents, numbered from `first` on, with scores `above`."""
        # A later document has to be better than the least of those that are full already.
        least = float(self.scores[-1]) if self.scores.size == k else above
        kept = np.flatnonzero(scores > least)
        more = Found(kept + first, scores[kept]).best(k)
        numbers = np.concatenate([self.numbers, more.numbers])
        return Found(numbers, np.concatenate([self.scores, more.scores])).best(k)


NONE = Found(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))


class DocumentCollection(Protocol):
    """Documents that can be searched."""

    @property
    def identity(self) -> str:
        """Equal identities find the same documents, up to the misses of an approximate store."""

    def __len__(self) -> int: ...


class SearchableCorpus(DocumentCollection, Protocol):
    """Documents by shared words. Safe to use from several threads."""

    def search(self, query: str, k: int) -> list[Hit]:
        """The `k` best documents, best first, ties by the order of the corpus.

        Fewer where fewer share a word with the query: a document with score 0 is never found.
        """


class DenseIndex(DocumentCollection, Protocol):
    """Documents by the cosine of their vectors with a query's. Safe to use from several tasks."""

    async def asearch(self, query: str, k: int) -> list[Hit]:
        """The `k` nearest documents, nearest first; scores are cosines.

        Raises:
            CallError: The server of the embedding or of the vectors does not answer.
        """
