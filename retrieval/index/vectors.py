"""Vectors for an index: encoded as fast as an embedder goes, or taken from an index that is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from cases.documents import Document
from ranking.encoding.vectors import Vectors
from retrieval.embeddings import BatchEmbedder, Embedder, ServerEmbedder
from retrieval.index.connect_store import connect_store
from retrieval.index.manifest import PASSAGES, finished_manifest
from retrieval.index.store import VectorStore
from storage.errors import InputError

_SLICE = 128
_REQUESTS = 8


def passage(document: Document) -> str:
    """What of a document becomes its vector."""
    return f"{document.title}. {document.text}" if document.title else document.text


async def encode(
    embedder: Embedder, texts: Sequence[str], report: Callable[[int], None] = lambda done: None
) -> Vectors:
    """One vector a text, in their order; shape (texts, dimensions).

    Texts of like length go together, the longest first: padding costs as much as words. A server gets
    several requests at once.

    Raises:
        CallError: The embedding's server does not answer.
    """
    order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
    slices = [order[start : start + _SLICE] for start in range(0, len(order), _SLICE)]
    room = asyncio.Semaphore(_REQUESTS if isinstance(embedder, ServerEmbedder) else 1)
    done = 0

    async def one(places: Sequence[int]) -> Vectors:
        nonlocal done
        some = [texts[place] for place in places]
        async with room:
            if isinstance(embedder, BatchEmbedder):
                vectors = await asyncio.to_thread(embedder.embed_batches, some)
            else:
                vectors = await embedder.aembed(some)
        done += len(some)
        report(done)
        return vectors

    tasks = [asyncio.create_task(one(places)) for places in slices]
    try:
        sorted_vectors = np.concatenate(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
    vectors = np.empty_like(sorted_vectors)
    vectors[order] = sorted_vectors
    return vectors


class VectorSource:
    """A finished index of the same documents by the same encoder, opened for its vectors alone."""

    def __init__(self, store: VectorStore) -> None:
        """Use `VectorSource.open`."""
        self._store = store

    @classmethod
    def open(cls, folder: Path, embedder: str, dimensions: int) -> VectorSource:
        """Open an index.

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
