"""Vectors taken from an index that is there, so that a change of store encodes nothing again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cases.errors import InputError
from retrieval.embeddings import Vectors
from retrieval.index.connect_store import connect_store
from retrieval.index.index import finished_manifest
from retrieval.index.manifest import PASSAGES
from retrieval.index.store import VectorStore


class VectorSource:
    """A finished index of the same documents by the same encoder, opened for its vectors alone."""

    def __init__(self, store: VectorStore) -> None:
        """Use `VectorSource.open`."""
        self._store = store

    @classmethod
    def open(cls, folder: Path, embedder: str, dimensions: int) -> VectorSource:
        """Open an index.

        Args:
            folder: Of the index.
            embedder: Identity of the encoder that the vectors must come from.
            dimensions: Of a vector.

        Raises:
            InputError: There is no finished index, or its vectors are others.
            ModelError: The package of its store is missing.
            CallError: The server of its vectors does not answer.
        """
        manifest = finished_manifest(folder)
        pairs = (
            ("embedder", manifest.embedder, embedder),
            ("dimensions", manifest.dimensions, dimensions),
            ("passages", manifest.passages, PASSAGES),
        )
        for name, theirs, ours in pairs:
            if theirs != ours:
                fault = f"was built with {name} {theirs}, and {ours} is asked for"
                raise InputError(folder, fault, "Leave out --vectors-of")
        return cls(connect_store(folder, manifest))

    def take(self, first: int, ids: Sequence[str]) -> Vectors | None:
        """Vectors of documents numbered from `first` on; None where not all of them are there.

        Raises:
            InputError: Another document has the number of one of them.
        """
        if not self._store.stored(first, ids).all():
            return None
        return self._store.vectors(first, len(ids))

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()
