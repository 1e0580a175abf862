"""Figures of an index: how many of the nearest documents it finds, and what a larger one would take."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cases.errors import InputError
from retrieval.corpus.corpus import Corpus
from retrieval.embeddings import Vectors
from retrieval.index.connect_store import kind_of, server_of
from retrieval.index.manifest import Manifest
from retrieval.index.numpy_store import NumpyStore
from retrieval.index.store import Nearest, VectorStore, exact

DEPTHS = (10, 100)
_ROWS = 4096


class Recall(NamedTuple):
    """What was measured.

    Attributes:
        queries: How many.
        recall: Share of the exactly nearest that were found, by depth; the mean over the queries.
        by_bytes: The same for quantised vectors alone, without the floats; empty for other stores.
        query_ms: Median time of a query for the largest depth, encoding aside.
        query_p95_ms: Nineteen of twenty queries took at most so long.
        processor_p95_ms: The same of processor time, where other work on the machine does not count.
    """

    queries: int
    recall: dict[int, float]
    by_bytes: dict[int, float]
    query_ms: float
    query_p95_ms: float
    processor_p95_ms: float


def measure(store: VectorStore, queries: Vectors) -> Recall:
    """Search for each query alone, and compare with the exact ranking; queries (queries, dimensions)."""
    deepest = min(max(DEPTHS), store.count)
    wanted = exact(_blocks(store), queries, deepest)
    found, times, processor = [], [], []
    for query in queries:
        begin, used = time.perf_counter(), time.process_time()
        found += store.search(query[None, :], deepest)
        times.append(1000 * (time.perf_counter() - begin))
        processor.append(1000 * (time.process_time() - used))
    rough: list[Nearest] = []
    if isinstance(store, NumpyStore) and store.quantised:
        rough = store.rough(queries, deepest)
    return Recall(
        queries=len(queries),
        recall=shares(wanted, found),
        by_bytes=shares(wanted, rough) if rough else {},
        query_ms=round(float(np.median(times)), 3),
        query_p95_ms=round(float(np.percentile(times, 95)), 3),
        processor_p95_ms=round(float(np.percentile(processor, 95)), 3),
    )


def shares(wanted: Sequence[Nearest], found: Sequence[Nearest]) -> dict[int, float]:
    """The mean share of the nearest that was found, by depth.

    A document as near as the last of them counts as one of them: which of two equals comes first is no miss.
    """
    return {
        depth: round(float(np.mean([_share(*pair, depth) for pair in zip(wanted, found, strict=True)])), 4)
        for depth in DEPTHS
    }


def _share(wanted: Nearest, found: Nearest, depth: int) -> float:
    count = min(depth, wanted.numbers.size)
    least = wanted.similarities[count - 1]
    hits = np.isin(found.numbers[:count], wanted.numbers[:count]) | (found.similarities[:count] == least)
    return float(np.count_nonzero(hits)) / count


def questions(corpus: Corpus, count: int) -> list[str]:
    """Titles, or beginnings where there is none, of documents spread over a corpus."""
    step = max(1, len(corpus) // count)
    documents = (corpus.read(number) for number in range(0, len(corpus), step))
    texts = [document.title or document.text.split(". ")[0] for document in documents]
    return texts[:count]


def _blocks(store: VectorStore) -> Iterator[tuple[int, Vectors]]:
    for first in range(0, store.count, _ROWS):
        yield first, store.vectors(first, _ROWS)


_FLOAT_BYTES = 4


class Plan(NamedTuple):
    """An estimate. Sizes are bytes; None is what was not measured or lies on a server.

    Attributes:
        measured: Documents that the figures come from.
        seconds: Of the build, on the same machine.
        encoding_seconds: Of those, for texts to become vectors.
        disk_bytes: Of the index.
        corpus_bytes: Of the corpus beside it.
        query_bytes: What a query reads, all of it: it is quick where so much memory is free. Computed from
            the sizes of vectors, not measured.
        query_ms: Of the store for the first hundred, encoding aside.
    """

    documents: int
    measured: int
    seconds: float
    encoding_seconds: float
    disk_bytes: int | None
    corpus_bytes: int | None
    query_bytes: int | None
    query_ms: float | None


def plan(folder: Path, manifest: Manifest, documents: int) -> Plan:
    """Go on from what the build of `folder` took to `documents`.

    All grows with the documents; but where a query walks a graph, its time grows with their logarithm, as
    does the time to store a vector.

    Raises:
        InputError: The build has recorded no figures, or not those of encoding.
    """
    effort = manifest.effort
    if effort.copied:
        fault = "its vectors were copied from another index, so that it tells nothing of encoding"
        raise InputError(folder, fault, "Plan by that one")
    if not effort.documents or not manifest.documents:
        raise InputError(folder, "its build has recorded no times", "Build an index anew, in another folder")
    growth = documents / manifest.documents
    levels = max(1.0, math.log(documents) / math.log(max(2, manifest.documents)))
    walks = kind_of(manifest.store).link_bytes > 0
    repeated = documents / effort.documents
    storing = effort.storing_seconds * repeated * (levels if walks else 1.0)
    on_server = server_of(manifest.store) is not None
    corpus = Path(manifest.corpus.folder)
    query_ms = manifest.query_ms
    if query_ms is not None:
        query_ms = None if on_server else query_ms * (levels if walks else growth)
    return Plan(
        documents=documents,
        measured=manifest.documents,
        # Storing goes on beside the encoding until it takes longer.
        seconds=max(effort.seconds * repeated, storing),
        encoding_seconds=effort.encoding_seconds * repeated,
        disk_bytes=None if on_server else round(bytes_in(folder) * growth),
        corpus_bytes=round(bytes_in(corpus) * growth) if corpus.is_dir() else None,
        query_bytes=None if on_server else documents * _bytes_a_vector(manifest),
        query_ms=query_ms,
    )


def bytes_in(folder: Path) -> int:
    """Of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _bytes_a_vector(manifest: Manifest) -> int:
    if manifest.quantisation:
        return manifest.dimensions + _FLOAT_BYTES
    return manifest.dimensions * _FLOAT_BYTES + kind_of(manifest.store).link_bytes
