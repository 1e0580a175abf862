"""Queries a second of a corpus, over those of the package rank_bm25 with the same formula on the same terms.

rank_bm25's BM25Okapi differs from ours in its idf alone, so here it gets ours; k1, b and the terms are the
same, and so are the rankings. With `--curve`, corpora of growing size are built and queried too, each in a
separate process: `python -m benchmarks.corpus SOURCE FOLDER PART_SIZE QUESTIONS`.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.abstracts import base_documents, questions, repeated, write_abstracts
from cases.documents import Document
from cases.texts import plural
from evals.bench.benchmark import BenchError, Part, Report, Result
from evals.bench.measuring import Times, peak_mb, run_child, scratch_folder, turns
from retrieval.building import bytes_in
from retrieval.corpus.build import BuildOptions, build
from retrieval.corpus.corpus import Corpus
from retrieval.corpus.postings import K1, B, terms

_FOUND = 10
# Scores on disk have 24 bits: two that differ by less may change places.
_SAME_SCORE = 1e-6

AIM = 20_000_000
"""Documents that the cost curve is extrapolated to."""
_QUESTIONS = 100
_DEPTH = 20
# Small, so that the smaller sizes already show what many parts cost.
_PART_SIZE = 10_000
_EXTRAPOLATED = ("processor_seconds", "peak_mb", "disk_bytes", "query_processor_ms")


@dataclass(frozen=True, slots=True)
class Options:
    """Size, and measured quantities.

    Attributes:
        data: Documents to use; invented ones without it.
        documents: Their number; they are repeated and perturbed if there are fewer.
        queries: Queries of each repeat.
        repeats: Repeats of both sides.
        curve: Whether to measure the cost by size too.
        sizes: Sizes of those corpora, ascending.
    """

    data: Path | None = None
    documents: int = 4000
    queries: int = 200
    repeats: int = 5
    curve: bool = False
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
    report(f"indexing {plural(len(documents), 'document')} twice")
    theirs = _rank_bm25([terms(f"{document.title} {document.text}") for document in documents])
    with scratch_folder() as folder:
        source = write_abstracts(folder / "documents.jsonl", iter(documents))
        build([source], folder / "corpus")
        corpus = Corpus.open(folder / "corpus")
        same = [_compare(corpus, theirs, query) for query in asked]
        ours, other = Times(), Times()
        sides: list[tuple[Times, Callable[[Sequence[str]], object]]] = [
            (ours, lambda query: corpus.find(query, _FOUND)),
            (other, lambda query: _best(theirs(query))),
        ]
        for _, (times, ask) in turns(sides, options.repeats, report):
            with times.measured():
                for query in asked:
                    ask(query)
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
        details["curve"] = curve(base, options.sizes, report)
    return Result(
        "corpus",
        Part("corpus", "queries/s", tuple(len(asked) / seconds for seconds in ours.wall)),
        Part("rank_bm25", "queries/s", tuple(len(asked) / seconds for seconds in other.wall)),
        details=details,
    )


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
    """As its own `get_top_n` does it, but ties are in the order of the documents."""
    best = np.argsort(-scores, kind="stable")[:_FOUND]
    return best[scores[best] > 0]


def _compare(
    corpus: Corpus, theirs: Callable[[Sequence[str]], NDArray[np.float64]], query: Sequence[str]
) -> bool:
    """Whether both find the same documents in the same order.

    Raises:
        BenchError: They do not, and their scores differ by more than rounding.
    """
    scores = theirs(query)
    ours, other = corpus.find(query, _FOUND).numbers, _best(scores)
    if np.array_equal(ours, other):
        return True
    if ours.size != other.size or not np.allclose(scores[ours], scores[other], rtol=_SAME_SCORE, atol=0):
        raise BenchError(f"the rankings differ for {' '.join(query)!r}: {ours.tolist()}, {other.tolist()}")
    return False


def curve(base: Sequence[Document], sizes: Sequence[int], report: Report) -> dict[str, Any]:
    """What corpora of each size cost.

    Raises:
        BenchError: A build failed.
    """
    rows = []
    for size in sizes:
        report(f"building and asking {plural(size, 'document')}")
        rows.append(_measured(base, size))
        report(", ".join(f"{name} {value:,}" for name, value in rows[-1].items()))
    return {"part_size": _PART_SIZE, "measured": rows, "at": AIM, "extrapolated": extrapolated(rows)}


def extrapolated(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Extrapolate each quantity to `AIM` from its growth between the two largest sizes.

    `exponent` is for the size: 1 if the quantity is proportional to it. `by_exponent` extrapolates with
    the exponent, `linear` in proportion to the size.
    """
    smaller, larger = rows[-2:]
    growth = larger["documents"] / smaller["documents"]
    further = AIM / larger["documents"]
    found = {}
    for name in _EXTRAPOLATED:
        exponent = math.log(larger[name] / smaller[name]) / math.log(growth)
        found[name] = {
            "exponent": round(exponent, 3),
            "by_exponent": _rounded(larger[name] * further**exponent),
            "linear": _rounded(larger[name] * further),
        }
    return found


def _rounded(value: float) -> float:
    """Three significant figures: an extrapolation has no more."""
    return float(f"{value:.3g}")


def _measured(base: Sequence[Document], size: int) -> dict[str, Any]:
    with scratch_folder() as folder:
        source = write_abstracts(folder / "documents.jsonl", repeated(base, size))
        asked = folder / "questions.json"
        asked.write_text(json.dumps(questions(base, _QUESTIONS)), "utf-8")
        given = [str(source), str(folder / "corpus"), str(_PART_SIZE), str(asked)]
        child = run_child("the measured build", "-m", "benchmarks.corpus", *given)
    measured: dict[str, Any] = json.loads(child.output)
    return measured


def run(source: Path, folder: Path, part_size: int, questions_file: Path) -> dict[str, Any]:
    """Build a corpus and query it, in the measured process: seconds, MB of 2**20 bytes, bytes.

    Peak memory is for the build.
    """
    building, asking = Times(), Times()
    with building.measured():
        built = build([source], folder, BuildOptions(part_size=part_size))
    measured = {
        "documents": built.manifest.tally.documents,
        "parts": built.manifest.parts,
        "terms": built.manifest.terms,
        "postings": built.manifest.postings,
        "seconds": round(building.wall[0], 2),
        "processor_seconds": round(building.processor[0], 2),
        "peak_mb": round(peak_mb(), 1),
        "disk_bytes": bytes_in(folder),
    }
    corpus = Corpus.open(folder)
    asked = json.loads(questions_file.read_text("utf-8"))
    for question in asked[:5]:
        corpus.search(question, _DEPTH)
    with asking.measured():
        for question in asked:
            corpus.search(question, _DEPTH)
    measured["query_ms"] = round(1000 * asking.wall[0] / len(asked), 3)
    measured["query_processor_ms"] = round(1000 * asking.processor[0] / len(asked), 3)
    return measured


if __name__ == "__main__":
    given_source, given_folder, given_size, given_questions = sys.argv[1:]
    found = run(Path(given_source), Path(given_folder), int(given_size), Path(given_questions))
    sys.stdout.write(json.dumps(found) + "\n")
