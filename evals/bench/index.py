"""Time to build an index of abstracts, over the time of the bare encoder for the same texts."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evals.bench.abstracts import base_documents, repeated, write_abstracts
from evals.bench.catalogue import Report
from evals.bench.index_curve import curve
from evals.bench.resources import processor_seconds
from evals.bench.result import Part, Result
from retrieval.corpus.build import build
from retrieval.embeddings import Embedder, Vectors, connect_embedder, normalise
from retrieval.index.build import BuildOptions, build_index
from retrieval.index.vectors import passage


@dataclass(frozen=True, slots=True)
class Options:
    """Size, and what is measured beside.

    Attributes:
        data: Documents to take; invented ones without it.
        documents: So many, repeated and perturbed where there are fewer.
        repeats: Of both sides.
        embedding: What makes the vectors.
        store: Where they go.
        curve: SVG file for the cost of stores by size; without it none is measured.
        sizes: Of that curve, ascending.
    """

    data: Path | None = None
    documents: int = 5000
    repeats: int = 1
    embedding: str = "embedded:minilm"
    store: str = "numpy"
    curve: Path | None = None
    sizes: tuple[int, ...] = (5_000, 200_000)


TINY = {"documents": 48, "embedding": "lexical:64", "sizes": (60, 120)}


def measure(options: Options, report: Report) -> Result:
    """Time both sides in turn; weights are loaded before.

    Raises:
        BenchError: The data holds nothing, or a measured process failed.
        InputError: The data cannot be read.
        ModelError, WeightsError: The embedding cannot be used.
    """
    documents = list(repeated(base_documents(options.data), options.documents))
    texts = [passage(document) for document in documents]
    embedder = connect_embedder(options.embedding)
    encode = _bare_encoder(embedder)
    encode(texts[:2])
    encoded: list[Vectors] = []

    def bare(out: Path) -> None:
        encoded[:] = [encode(texts)]

    asyncio.run(embedder.aembed(texts[:1]))
    with tempfile.TemporaryDirectory(prefix="evigraph-bench-") as name:
        folder = Path(name)
        build([write_abstracts(folder / "documents.jsonl", iter(documents))], folder / "corpus")

        def built(out: Path) -> None:
            given = BuildOptions(store=options.store, embedding=options.embedding)
            asyncio.run(build_index(folder / "corpus", out, given, embedder=embedder))

        ours, theirs = _Timed(built), _Timed(bare)
        for repeat in range(options.repeats):
            report(f"repeat {repeat + 1} of {options.repeats}: {len(texts):,} texts through both sides")
            for side in (ours, theirs)[:: 1 if repeat % 2 == 0 else -1]:
                side.run(folder / f"index-{repeat}")
    details: dict[str, Any] = {
        "documents": len(texts),
        "embedding": options.embedding,
        "store": options.store,
        "processor_ratio": round(sum(ours.processor) / max(sum(theirs.processor), 1e-9), 4),
    }
    if options.curve:
        details["curve"] = curve(encoded[0], options.sizes, options.curve, report)
    return Result(
        "index",
        Part("build of an index", "s", tuple(ours.seconds)),
        Part("bare encoder", "s", tuple(theirs.seconds)),
        details=details,
    )


class _Timed:
    """One side, and its seconds in each repeat."""

    def __init__(self, work: Callable[[Path], object]) -> None:
        self._work = work
        self.seconds: list[float] = []
        self.processor: list[float] = []

    def run(self, out: Path) -> None:
        begin, processor = time.perf_counter(), processor_seconds()
        self._work(out)
        self.seconds.append(time.perf_counter() - begin)
        self.processor.append(processor_seconds() - processor)


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
