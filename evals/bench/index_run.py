"""The measured process of the curve: `python -m evals.bench.index_run BASE STORE SIZE FOLDER`.

It fills a store with vectors, asks it, and prints what that took.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from evals.bench.resources import peak_mb, processor_seconds
from retrieval.embeddings import Vectors, normalise
from retrieval.index.connect_store import connect_store
from retrieval.index.figures import bytes_in, measure
from retrieval.index.manifest import IndexedCorpus, Manifest

QUERIES = 200
_CHUNK = 1024
_NOISE = 0.6
"""Of the spread of real vectors. A copy's cosine with its original is about 0.87, with another copy 0.75."""


class Copies:
    """Vectors beyond the real ones: those, each moved by noise that spreads as the real ones do.

    Noise in all directions alike would put all copies of a vector at one distance, as no texts are.
    """

    def __init__(self, real: Vectors) -> None:
        """Real vectors, shape (real, dimensions)."""
        self._real = real
        centred = (real - real.mean(axis=0)).astype(np.float64)
        values, directions = np.linalg.eigh(centred.T @ centred / len(real))
        self._spread = (directions * np.sqrt(np.maximum(values, 0.0))).T.astype(np.float32)

    def rows(self, first: int, count: int) -> Vectors:
        """Those from number `first` on: the real ones, then copies."""
        numbers = np.arange(first, first + count)
        vectors = self._real[numbers % len(self._real)]
        moved = self._moved(vectors, first)
        return np.where((numbers < len(self._real))[:, None], vectors, moved)

    def queries(self, count: int) -> Vectors:
        """Copies too, and none of those that are stored."""
        return self._moved(self._real[:: max(1, len(self._real) // count)][:count], -1)

    def _moved(self, vectors: Vectors, seed: int) -> Vectors:
        draw = np.random.default_rng(seed % (1 << 32))
        noise = draw.standard_normal(vectors.shape, dtype=np.float32) @ self._spread
        return normalise(vectors + _NOISE * noise)


def run(base: Path, store_name: str, size: int, folder: Path) -> dict[str, Any]:
    """Fill and ask; seconds, MB of 2^20 bytes, bytes."""
    copies = Copies(np.load(base))
    name, _, quantised = store_name.partition(" ")
    manifest = Manifest(
        store=name,
        embedding="",
        embedder="",
        dimensions=np.load(base, mmap_mode="r").shape[1],
        quantisation="int8" if quantised else None,
        corpus=IndexedCorpus(folder="", identity="", documents=size, sources=[]),
    )
    store = connect_store(folder, manifest)
    seconds = processor = 0.0
    for first in range(0, size, _CHUNK):
        vectors = copies.rows(first, min(_CHUNK, size - first))
        ids = [str(number) for number in range(first, first + len(vectors))]
        begin, used = time.perf_counter(), processor_seconds()
        store.add(first, ids, vectors)
        seconds += time.perf_counter() - begin
        processor += processor_seconds() - used
    store.close()
    store = connect_store(folder, manifest)
    store.search(copies.queries(1), 100)
    found = measure(store, copies.queries(QUERIES))
    store.close()
    return {
        "store": store_name,
        "vectors": size,
        "seconds": round(seconds, 2),
        "processor_seconds": round(processor, 2),
        "disk_bytes": bytes_in(folder),
        "peak_mb": round(peak_mb(), 1),
        "query_ms": found.query_ms,
        "query_p95_ms": found.query_p95_ms,
        "query_processor_p95_ms": found.processor_p95_ms,
        **{f"recall@{depth}": share for depth, share in found.recall.items()},
        **{f"recall@{depth}_by_bytes": share for depth, share in found.by_bytes.items()},
    }


if __name__ == "__main__":
    base, store_name, size, folder = sys.argv[1:]
    sys.stdout.write(json.dumps(run(Path(base), store_name, int(size), Path(folder))) + "\n")
