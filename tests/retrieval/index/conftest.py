"""Vectors like those of texts, and stores of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ranking.encoding.vectors import Vectors
from retrieval.embeddings import normalise
from retrieval.index.chroma_store import ChromaStore
from retrieval.index.numpy_store import NumpyStore
from retrieval.index.qdrant_store import QdrantStore
from retrieval.index.store import VectorStore
from tests.retrieval.index.qdrant_server import qdrant_server

DIMENSIONS = 32
COUNT = 250
TWINS = (40, 41, 200)
"""Documents with one vector."""


def ids(first: int = 0, end: int = COUNT) -> list[str]:
    return [f"pmid{number}" for number in range(first, end)]


@pytest.fixture(scope="package")
def vectors() -> Vectors:
    """In a dozen groups, as texts of a dozen subjects are."""
    draw = np.random.default_rng(7)
    centres = draw.standard_normal((12, DIMENSIONS))
    made = centres[draw.integers(12, size=COUNT)] + 0.7 * draw.standard_normal((COUNT, DIMENSIONS))
    made[list(TWINS)] = made[TWINS[0]]
    return normalise(made.astype(np.float32))


@pytest.fixture(scope="package")
def queries(vectors: Vectors) -> Vectors:
    draw = np.random.default_rng(8)
    noise = 0.1 * draw.standard_normal((20, DIMENSIONS))
    return normalise((vectors[::13][:20] + noise).astype(np.float32))


@pytest.fixture(scope="package")
def stores(vectors: Vectors) -> Iterator[dict[str, VectorStore]]:
    """One of each kind with the same vectors, stored in two goes."""
    # Qdrant's local mode waits for the disk at every point.
    memory = Path("/dev/shm")  # noqa: S108 - a new folder in it
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name,
        qdrant_server() as url,
    ):
        folder = Path(name)
        made: dict[str, VectorStore] = {
            "numpy": NumpyStore(folder / "numpy", DIMENSIONS),
            "parts": NumpyStore(folder / "parts", DIMENSIONS, rows=32),
            "chroma": ChromaStore(folder / "chroma"),
            "qdrant": QdrantStore(folder / "qdrant", "documents", DIMENSIONS),
            "server": QdrantStore(url, "one", DIMENSIONS),
        }
        for store in made.values():
            store.add(0, ids(0, 90), vectors[:90])
            store.add(90, ids(90), vectors[90:])
        yield made
        for store in made.values():
            store.close()
