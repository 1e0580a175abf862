"""Vectors in Chroma, in this process: an approximate index (HNSW) that is loaded into memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import chromadb
import numpy as np
from chromadb.api.client import Client
from chromadb.api.collection_configuration import CreateHNSWConfiguration
from chromadb.config import Settings
from chromadb.errors import ChromaError
from numpy.typing import NDArray

from ranking.encoding.vectors import Vectors
from retrieval.index.connect_store import StorePlace
from retrieval.index.store import VectorStore, by_number, exact, refuse_others, storable
from retrieval.protocols import NONE, Found
from storage.errors import InputError

HNSW: CreateHNSWConfiguration = {
    # Of unit vectors the inner product is the cosine, and a vector of zeros is at no undefined distance.
    "space": "ip",
    "max_neighbors": 24,
    "ef_construction": 200,
    "ef_search": 400,
    # Writing the index out at every thousandth vector, as by default, takes longer than growing it.
    "batch_size": 1_000,
    "sync_threshold": 20_000,
}
"""Above Chroma's defaults of 16 neighbours and 100 candidates each: recall before time."""

EXACT_UP_TO = 10_000
"""Most vectors that are compared one by one: of so few, the index misses some for no gain."""

_COLLECTION = "documents"
_BATCH = 2_000


def open_store(place: StorePlace) -> VectorStore:
    """Open or begin a store.

    Raises:
        InputError: Chroma cannot read the folder.
    """
    return ChromaStore(place.folder)


class ChromaStore:
    """One collection; a record's id is the number of its document, whose own id is its metadata."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._few: Vectors | None = None
        try:
            self._client = chromadb.PersistentClient(
                path=str(folder), settings=Settings(anonymized_telemetry=False)
            )
            self._collection = self._client.get_or_create_collection(
                _COLLECTION, embedding_function=None, configuration={"hnsw": HNSW}
            )
        except ChromaError as error:
            raise InputError(folder, f"Chroma cannot open it: {error}", "Build the index anew") from error

    @property
    def count(self) -> int:
        return self._collection.count()

    def stored(self, first: int, ids: Sequence[str]) -> NDArray[np.bool_]:
        wanted = [str(number) for number in range(first, first + len(ids))]
        known: dict[str, str] = {}
        for start in range(0, len(wanted), _BATCH):
            found = self._collection.get(ids=wanted[start : start + _BATCH], include=["metadatas"])
            pairs = zip(found["ids"], found["metadatas"] or [], strict=True)
            known |= {number: str(metadata["id"]) for number, metadata in pairs}
        refuse_others(self._folder, zip(ids, map(known.get, wanted), strict=True))
        return np.array([number in known for number in wanted], dtype=np.bool_)

    def add(self, first: int, ids: Sequence[str], vectors: Vectors) -> None:
        self._few = None
        for start in range(0, len(ids), _BATCH):
            some = ids[start : start + _BATCH]
            self._collection.upsert(
                ids=[str(first + start + row) for row in range(len(some))],
                embeddings=vectors[start : start + _BATCH],
                metadatas=[{"id": storable(id_)} for id_ in some],
            )

    def vectors(self, first: int, count: int) -> Vectors:
        end = min(first + count, self.count)
        rows = []
        for start in range(first, end, _BATCH):
            numbers = [str(number) for number in range(start, min(start + _BATCH, end))]
            found = self._collection.get(ids=numbers, include=["embeddings"])
            assert found["embeddings"] is not None
            by_id = dict(zip(found["ids"], found["embeddings"], strict=True))
            rows += [by_id[number] for number in numbers]
        return np.asarray(rows, dtype=np.float32)

    def search(self, queries: Vectors, k: int) -> list[Found]:
        """By its index, which misses some; up to `EXACT_UP_TO` vectors exactly."""
        wanted = min(k, self.count)
        if wanted < 1 or not len(queries):
            return [NONE] * len(queries)
        if self.count <= EXACT_UP_TO:
            if self._few is None:
                self._few = self.vectors(0, self.count)
            return exact([(0, self._few)], queries, k)
        return self.approximate(queries, wanted)

    def approximate(self, queries: Vectors, k: int) -> list[Found]:
        """By the index, however few vectors there are; `k` at most all of them."""
        found = self._collection.query(query_embeddings=queries, n_results=k, include=["distances"])
        assert found["distances"] is not None
        return [
            by_number([int(number) for number in numbers], [1.0 - distance for distance in distances])
            for numbers, distances in zip(found["ids"], found["distances"], strict=True)
        ]

    def close(self) -> None:
        # The interface that the package declares lacks it.
        if isinstance(self._client, Client):
            self._client.close()
