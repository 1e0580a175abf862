"""Figures of an index: how many of the nearest documents it finds, and its size."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ranking.encoding.vectors import Vectors
from retrieval.corpus.corpus import Corpus
from retrieval.index.store import VectorStore, exact
from retrieval.protocols import Found

DEPTHS = (10, 100)
_ROWS = 4096


class Recall(NamedTuple):
    """Measured recall.

    Attributes:
        recall: Share of the exactly nearest that were found, by depth; the mean over the queries.
        query_ms: Median time of a query for the largest depth, encoding aside.
        query_p95_ms: Nineteen of twenty queries took at most so long.
        processor_p95_ms: The same of processor time, where other work on the machine does not count.
    """

    queries: int
    recall: dict[int, float]
    query_ms: float
    query_p95_ms: float
    processor_p95_ms: float


def measure(store: VectorStore, queries: Vectors) -> Recall:
    """Search for each query alone, and compare with the exact ranking; queries (queries, dimensions)."""
    deepest = min(max(DEPTHS), store.count)
    blocks = ((first, store.vectors(first, _ROWS)) for first in range(0, store.count, _ROWS))
    wanted = exact(blocks, queries, deepest)
    found, times, processor = [], [], []
    for query in queries:
        begin, used = time.perf_counter(), time.process_time()
        found += store.search(query[None, :], deepest)
        times.append(1000 * (time.perf_counter() - begin))
        processor.append(1000 * (time.process_time() - used))
    return Recall(
        queries=len(queries),
        recall=shares(wanted, found),
        query_ms=round(float(np.median(times)), 3),
        query_p95_ms=round(float(np.percentile(times, 95)), 3),
        processor_p95_ms=round(float(np.percentile(processor, 95)), 3),
    )


def shares(wanted: Sequence[Found], found: Sequence[Found]) -> dict[int, float]:
    """The mean share of the nearest that was found, by depth.

    A document as near as the last of them counts as one of them: the order of equals does not count as a
    miss.
    """
    return {
        depth: round(float(np.mean([_share(*pair, depth) for pair in zip(wanted, found, strict=True)])), 4)
        for depth in DEPTHS
    }


def _share(wanted: Found, found: Found, depth: int) -> float:
    count = min(depth, wanted.numbers.size)
    least = wanted.scores[count - 1]
    hits = np.isin(found.numbers[:count], wanted.numbers[:count]) | (found.scores[:count] == least)
    return float(np.count_nonzero(hits)) / count


def questions(corpus: Corpus, count: int) -> list[str]:
    """Titles, or beginnings where there is none, of documents spread over a corpus."""
    step = max(1, len(corpus) // count)
    documents = (corpus.read(number) for number in range(0, len(corpus), step))
    texts = [document.title or document.text.split(". ")[0] for document in documents]
    return texts[:count]
