"""Texts of documents to vectors, as fast as an embedder goes where no bit has to be the same twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from cases.literature import Document
from retrieval.embeddings import BatchEmbedder, Embedder, ServerEmbedder, Vectors

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

    Args:
        embedder: Makes the vectors.
        texts: At least one.
        report: Told how many texts are done.

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
