"""What a node may ask a corpus of documents, and an index of their vectors."""

from __future__ import annotations

from typing import NamedTuple, Protocol

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
