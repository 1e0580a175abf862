"""Vectors in Qdrant: its client's local mode in a folder, or a server by its URL."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from ranking.encoding.vectors import Vectors
from retrieval.index.connect_store import StorePlace, kind_of
from retrieval.index.store import VectorStore, by_number, refuse_others, storable
from retrieval.protocols import NONE, Found
from serving.policy.gate import demand_route
from serving.protocol.errors import CallError, ModelError, classify, redirected
from serving.protocol.keys import api_key

_BATCH = 500
_EF = 400
"""Candidates that a server keeps while it walks its index; local mode compares all vectors."""

_TIED = 16
"""Extra results to request: among ties at the last place Qdrant returns any, and we want the first."""

_TIMEOUT_S = 60
_LOCAL_COLLECTION = "documents"


def open_store(place: StorePlace) -> VectorStore:
    """Open or begin a store in a folder or on a server.

    Raises:
        ModelError: Another process has the folder open.
        CallError: The server does not answer.
    """
    if place.url is None:
        return QdrantStore(place.folder, _LOCAL_COLLECTION, place.dimensions)
    return QdrantStore(place.url, place.collection, place.dimensions)


class QdrantStore:
    """One collection; a point's id is the number of its document, whose own id is its payload.

    Local mode keeps all vectors in memory and compares every one; it reads its folder with pickle, so open
    none that somebody else has written.
    """

    def __init__(self, place: Path | str, collection: str, dimensions: int) -> None:
        """Open or begin a store in a folder, or on the server at a URL.

        Raises:
            ModelError: Another process has the folder open.
            CallError: The server does not answer.
        """
        self._place, self._collection, self._dimensions = place, collection, dimensions
        # Local mode is one SQLite connection and one array.
        self._lock: contextlib.AbstractContextManager[Any] = (
            threading.RLock() if isinstance(place, Path) else contextlib.nullcontext()
        )
        self._client = _connect(place)
        with self._asking():
            if not self._client.collection_exists(collection):
                self._create()

    @property
    def count(self) -> int:
        with self._asking():
            return self._client.count(self._collection, exact=True).count

    def stored(self, first: int, ids: Sequence[str]) -> NDArray[np.bool_]:
        numbers = list(range(first, first + len(ids)))
        with self._asking():
            found = self._client.retrieve(self._collection, numbers, with_payload=True)
        known = {int(point.id): str((point.payload or {}).get("id")) for point in found}
        refuse_others(self._place, zip(ids, map(known.get, numbers), strict=True))
        return np.array([number in known for number in numbers], dtype=np.bool_)

    def add(self, first: int, ids: Sequence[str], vectors: Vectors) -> None:
        for start in range(0, len(ids), _BATCH):
            some = ids[start : start + _BATCH]
            points = models.Batch(
                ids=list(range(first + start, first + start + len(some))),
                vectors=vectors[start : start + _BATCH].tolist(),
                payloads=[{"id": storable(id_)} for id_ in some],
            )
            with self._asking():
                self._client.upsert(self._collection, points, wait=True)

    def vectors(self, first: int, count: int) -> Vectors:
        numbers = list(range(first, min(first + count, self.count)))
        with self._asking():
            found = self._client.retrieve(self._collection, numbers, with_payload=False, with_vectors=True)
        by_id = {point.id: point.vector for point in found}
        rows = np.asarray([by_id[number] for number in numbers], dtype=np.float32)
        return rows.reshape(len(numbers), self._dimensions)

    def search(self, queries: Vectors, k: int) -> list[Found]:
        """Local mode is exact; a server's index misses some."""
        if k < 1:
            return [NONE] * len(queries)
        found = []
        walk = None if isinstance(self._place, Path) else models.SearchParams(hnsw_ef=max(_EF, k))
        for query in queries:
            with self._asking():
                answer = self._client.query_points(
                    self._collection,
                    query=query.tolist(),
                    limit=k + _TIED,
                    with_payload=False,
                    search_params=walk,
                )
            points = answer.points
            nearest = by_number([int(point.id) for point in points], [point.score for point in points])
            found.append(Found(nearest.numbers[:k], nearest.scores[:k]))
        return found

    def close(self) -> None:
        self._client.close()

    def _create(self) -> None:
        # Of unit vectors the inner product is the cosine, and zeros need no division.
        parameters = models.VectorParams(size=self._dimensions, distance=models.Distance.DOT)
        self._client.create_collection(self._collection, vectors_config=parameters)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except ApiException as error:
                variable = kind_of("qdrant").key_variable
                raise self._failure(error).at(f"Qdrant at {self._place}", variable) from error

    def _failure(self, error: ApiException) -> CallError:
        if isinstance(error, UnexpectedResponse) and 300 <= (error.status_code or 0) < 400:
            # Its client follows none; the user has named the server's host.
            return redirected(error.status_code or 0, str(self._place), error.headers.get("location"))
        return classify(error.source if hasattr(error, "source") else error)


def _connect(place: Path | str) -> QdrantClient:
    if isinstance(place, Path):
        place.mkdir(parents=True, exist_ok=True)
        try:
            return QdrantClient(path=str(place), force_disable_check_same_thread=True)
        except RuntimeError as error:
            # The client locks its folder; the message names it.
            raise ModelError(f"{error}".splitlines()[0]) from error
    proxy = demand_route(place, f"store qdrant@{place}")
    return QdrantClient(
        url=place,
        api_key=api_key(kind_of("qdrant").key_variable),
        timeout=_TIMEOUT_S,
        check_compatibility=False,
        transport=httpx.HTTPTransport(proxy=proxy),
        trust_env=False,
    )
