"""Time to build an index of abstracts, over the time of the bare encoder for the same texts.

With `--curve`, stores of growing size are filled and queried too, each in a separate process:
`python -m benchmarks.index BASE STORE SIZE FOLDER`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evals.bench.benchmark import Part, Report, Result
from evals.bench.measuring import Times, peak_mb, run_child, scratch_folder, turns
from ranking.encoding.vectors import Vectors
from retrieval.building import bytes_in
from retrieval.embeddings import Embedder, connect_embedder, normalise
from retrieval.index import figures
from retrieval.index.build import passage
from retrieval.index.connect_store import connect_store
from retrieval.index.manifest import IndexedCorpus, Manifest

STORES = ("numpy", "chroma", "qdrant")
MAX_LOCAL_QDRANT = 5_000
"""Qdrant's local mode compares every vector in Python, and syncs to disk for each one that it stores."""
QUERIES = 200
_CHUNK = 1024
_NOISE = 0.6
"""Of the spread of real vectors. A copy's cosine with its original is about 0.87, with another copy 0.75."""


@dataclass(frozen=True, slots=True)
class Options:
    """Size, and measured quantities.

    Attributes:
        data: Documents to use; invented ones without it.
        documents: Their number; they are repeated and perturbed if there are fewer.
        repeats: Repeats of both sides.
        embedding: The embedding.
        store: The store of the vectors.
        curve: Whether to measure the cost of stores by size too.
        sizes: Those sizes, ascending.
    """

    data: Path | None = None
    documents: int = 5000
    repeats: int = 1
    embedding: str = "embedded:minilm"
    store: str = "numpy"
    curve: bool = False
    sizes: tuple[int, ...] = (5_000, 200_000)


TINY = {"documents": 48, "embedding": "lexical:64", "sizes": (60, 120)}


def measure(options: Options, report: Report) -> Result:
    """Time both sides in turn; weights are loaded before.

    Raises:
        BenchError: The data holds nothing, or a measured process failed.
        InputError: The data cannot be read.
        ModelError, WeightsError: The embedding cannot be used.
    """
    # Not above: the measured process imports this file too, and its memory should be only the store's.
    from benchmarks.abstracts import base_documents, repeated, write_abstracts
    from retrieval.corpus.build import build
    from retrieval.index.build import BuildOptions, build_index

    documents = list(repeated(base_documents(options.data), options.documents))
    texts = [passage(document) for document in documents]
    embedder = connect_embedder(options.embedding)
    encode = _bare_encoder(embedder)
    encode(texts[:2])
    encoded: list[Vectors] = []
    asyncio.run(embedder.aembed(texts[:1]))
    with scratch_folder() as folder:
        build([write_abstracts(folder / "documents.jsonl", iter(documents))], folder / "corpus")
        ours, theirs = Times(), Times()
        report(f"{len(texts):,} texts through both sides")
        for repeat, side in turns((ours, theirs), options.repeats, report):
            with side.measured():
                if side is theirs:
                    encoded[:] = [encode(texts)]
                else:
                    given = BuildOptions(store=options.store, embedding=options.embedding)
                    out = folder / f"index-{repeat}"
                    asyncio.run(build_index(folder / "corpus", out, given, embedder=embedder))
    details: dict[str, Any] = {
        "documents": len(texts),
        "processor_ratio": round(sum(ours.processor) / max(sum(theirs.processor), 1e-9), 4),
    }
    if options.curve:
        details["curve"] = curve(encoded[0], options.sizes, report)
    return Result(
        "index",
        Part("build of an index", "s", tuple(ours.wall)),
        Part("bare encoder", "s", tuple(theirs.wall)),
        details=details,
    )


def _bare_encoder(embedder: Embedder) -> Callable[[Sequence[str]], Vectors]:
    """What a user without us would call: sentence-transformers with its defaults."""
    from retrieval.embeddings import SentenceEmbedder
    from weights.loading import no_progress_bars, stay_offline

    if not isinstance(embedder, SentenceEmbedder):
        return lambda texts: asyncio.run(embedder.aembed(texts))
    stay_offline()
    from sentence_transformers import SentenceTransformer

    with no_progress_bars():
        model = SentenceTransformer(str(embedder.folder), local_files_only=True)
    return lambda texts: normalise(np.asarray(model.encode(list(texts), show_progress_bar=False)))


def curve(vectors: Vectors, sizes: Sequence[int], report: Report) -> dict[str, Any]:
    """What stores of each size cost, and how much they find.

    Raises:
        BenchError: A measured process failed.
    """
    rows = []
    with scratch_folder() as folder:
        base = folder / "base.npy"
        np.save(base, vectors)
        for size in sizes:
            for store in STORES:
                if store == "qdrant" and size > MAX_LOCAL_QDRANT:
                    continue
                report(f"{store}: storing and asking {size:,} vectors")
                rows.append(_measured(base, store, size))
                report(", ".join(f"{key} {value}" for key, value in rows[-1].items()))
    return {"real_vectors": len(vectors), "measured": rows}


def _measured(base: Path, store: str, size: int) -> dict[str, Any]:
    with scratch_folder() as folder:
        given = [str(base), store, str(size), str(folder)]
        child = run_child(f"the measured process of {store}", "-m", "benchmarks.index", *given)
    measured: dict[str, Any] = json.loads(child.output)
    return measured


class Copies:
    """More vectors than the real ones: copies, moved by noise with the covariance of the real ones.

    Noise equal in all directions would put all copies of a vector at one distance, unlike texts.
    """

    def __init__(self, real: Vectors) -> None:
        """Real vectors, shape (real, dimensions)."""
        self._real = real
        centred = (real - real.mean(axis=0)).astype(np.float64)
        values, directions = np.linalg.eigh(centred.T @ centred / len(real))
        self._spread = (directions * np.sqrt(np.maximum(values, 0.0))).T.astype(np.float32)

    def rows(self, first: int, count: int) -> Vectors:
        """Vectors from number `first` on: the real ones, then copies."""
        numbers = np.arange(first, first + count)
        vectors = self._real[numbers % len(self._real)]
        moved = self._moved(vectors, first)
        return np.where((numbers < len(self._real))[:, None], vectors, moved)

    def queries(self, count: int) -> Vectors:
        """Copies as well, but none of those that are stored."""
        return self._moved(self._real[:: max(1, len(self._real) // count)][:count], -1)

    def _moved(self, vectors: Vectors, seed: int) -> Vectors:
        draw = np.random.default_rng(seed % (1 << 32))
        noise = draw.standard_normal(vectors.shape, dtype=np.float32) @ self._spread
        return normalise(vectors + _NOISE * noise)


def run(base: Path, store_name: str, size: int, folder: Path) -> dict[str, Any]:
    """Fill a store and query it, in the measured process: seconds, MB of 2**20 bytes, bytes."""
    copies = Copies(np.load(base))
    manifest = Manifest(
        store=store_name,
        embedding="",
        embedder="",
        dimensions=np.load(base, mmap_mode="r").shape[1],
        corpus=IndexedCorpus(folder="", identity="", documents=size, sources=[]),
    )
    store = connect_store(folder, manifest)
    storing = Times()
    for first in range(0, size, _CHUNK):
        vectors = copies.rows(first, min(_CHUNK, size - first))
        ids = [str(number) for number in range(first, first + len(vectors))]
        with storing.measured():
            store.add(first, ids, vectors)
    store.close()
    store = connect_store(folder, manifest)
    store.search(copies.queries(1), 100)
    found = figures.measure(store, copies.queries(QUERIES))
    store.close()
    return {
        "store": store_name,
        "vectors": size,
        "seconds": round(sum(storing.wall), 2),
        "processor_seconds": round(sum(storing.processor), 2),
        "disk_bytes": bytes_in(folder),
        "peak_mb": round(peak_mb(), 1),
        "query_ms": found.query_ms,
        "query_p95_ms": found.query_p95_ms,
        "query_processor_p95_ms": found.processor_p95_ms,
        **{f"recall@{depth}": share for depth, share in found.recall.items()},
    }


if __name__ == "__main__":
    given_base, given_store, given_size, given_folder = sys.argv[1:]
    row = run(Path(given_base), given_store, int(given_size), Path(given_folder))
    sys.stdout.write(json.dumps(row) + "\n")
