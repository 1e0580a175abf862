"""Queries a second of a corpus, over those of the package rank_bm25 with the same formula on the same terms.

rank_bm25's BM25Okapi differs from ours in its idf alone, so that here it gets ours; k1, b and the terms are
the same, and so are the rankings.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.bench.abstracts import base_documents, questions, repeated, write_abstracts
from evals.bench.catalogue import Report
from evals.bench.corpus_curve import curve
from evals.bench.result import BenchError, Part, Result
from retrieval.corpus.build import build
from retrieval.corpus.corpus import Corpus
from retrieval.corpus.postings import K1, B, terms

_FOUND = 10
# Scores on disk have 24 bits: two that differ by less may change places.
_SAME_SCORE = 1e-6


@dataclass(frozen=True, slots=True)
class Options:
    """Size, and what is measured beside.

    Attributes:
        data: Documents to take; invented ones without it.
        documents: So many, repeated and perturbed where there are fewer.
        queries: Of each repeat.
        repeats: Of both sides.
        curve: SVG file for the cost curve; without it none is measured.
        sizes: Of the corpora of that curve, ascending.
    """

    data: Path | None = None
    documents: int = 4000
    queries: int = 200
    repeats: int = 5
    curve: Path | None = None
    sizes: tuple[int, ...] = (4_000, 20_000, 200_000)


TINY = {"documents": 40, "queries": 4, "repeats": 2, "sizes": (30, 60, 120)}


def measure(options: Options, report: Report) -> Result:
    """Time both sides in turn, and compare what they find.

    Raises:
        BenchError: rank_bm25 is missing, or the two rank differently.
        InputError: The data cannot be read.
    """
    base = base_documents(options.data)
    documents = list(repeated(base, options.documents))
    asked = [terms(question) for question in questions(documents, options.queries)]
    report(f"indexing {len(documents):,} documents twice")
    theirs = _rank_bm25([terms(f"{document.title} {document.text}") for document in documents])
    with tempfile.TemporaryDirectory(prefix="evigraph-bench-") as name:
        source = write_abstracts(Path(name) / "documents.jsonl", iter(documents))
        build([source], Path(name) / "corpus")
        corpus = Corpus.open(Path(name) / "corpus")
        same = [_compare(corpus, theirs, query) for query in asked]
        ours = _Timed(lambda query: corpus.find(query, _FOUND))
        other = _Timed(lambda query: _best(theirs(query)))
        for repeat in range(options.repeats):
            report(f"repeat {repeat + 1} of {options.repeats}")
            for side in (ours, other)[:: 1 if repeat % 2 == 0 else -1]:
                side.run(asked)
    details: dict[str, Any] = {
        "documents": len(documents),
        "distinct_documents": min(len(base), len(documents)),
        "queries": len(asked),
        "terms_a_query": round(float(np.mean([len(query) for query in asked])), 1),
        "found": _FOUND,
        "same_ranking": sum(same),
        "same_up_to_equal_scores": len(same),
    }
    if options.curve:
        details["curve"] = curve(base, options.sizes, options.curve, report)
    return Result(
        "corpus",
        Part("corpus", "queries/s", tuple(ours.rates)),
        Part("rank_bm25", "queries/s", tuple(other.rates)),
        details=details,
    )


class _Timed:
    """One side, and its queries a second in each repeat."""

    def __init__(self, ask: Callable[[Sequence[str]], object]) -> None:
        self._ask = ask
        self.rates: list[float] = []

    def run(self, queries: Sequence[Sequence[str]]) -> None:
        begin = time.perf_counter()
        for query in queries:
            self._ask(query)
        self.rates.append(len(queries) / (time.perf_counter() - begin))


def _rank_bm25(texts: Sequence[Sequence[str]]) -> Callable[[Sequence[str]], NDArray[np.float64]]:
    try:
        from rank_bm25 import BM25Okapi
    except ImportError as error:
        raise BenchError("this compares with the package rank_bm25: pip install rank_bm25") from error

    class SameFormula(BM25Okapi):  # type: ignore[misc]  # ships no types
        """With the idf of Lucene, which is never negative."""

        def _calc_idf(self, nd: dict[str, int]) -> None:
            size = self.corpus_size
            self.idf = {term: math.log1p((size - df + 0.5) / (df + 0.5)) for term, df in nd.items()}

    index: Any = SameFormula(texts, k1=K1, b=B)
    return lambda query: np.asarray(index.get_scores(query))


def _best(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """As its own `get_top_n` does it, with ties in the order of the documents."""
    best = np.argsort(-scores, kind="stable")[:_FOUND]
    return best[scores[best] > 0]


def _compare(
    corpus: Corpus, theirs: Callable[[Sequence[str]], NDArray[np.float64]], query: Sequence[str]
) -> bool:
    """Whether both find the same documents in the same order.

    Raises:
        BenchError: They do not, and it is not for scores that are equal but for rounding.
    """
    scores = theirs(query)
    ours, other = corpus.find(query, _FOUND).numbers, _best(scores)
    if np.array_equal(ours, other):
        return True
    if ours.size != other.size or not np.allclose(scores[ours], scores[other], rtol=_SAME_SCORE, atol=0):
        raise BenchError(f"the rankings differ for {' '.join(query)!r}: {ours.tolist()}, {other.tolist()}")
    return False
