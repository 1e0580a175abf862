"""What a node may ask an index of vectors."""

from __future__ import annotations

from typing import Protocol

from retrieval.corpus.seam import Hit


class DenseIndex(Protocol):
    """Documents by the cosine of their vectors with a query's. Safe to use from several tasks."""

    @property
    def identity(self) -> str:
        """Equal identities find the same documents, up to the misses of an approximate store."""

    def __len__(self) -> int:
        """Documents in it."""

    async def asearch(self, query: str, k: int) -> list[Hit]:
        """The `k` nearest documents, nearest first; scores are cosines.

        Raises:
            CallError: The server of the embedding or of the vectors does not answer.
        """
