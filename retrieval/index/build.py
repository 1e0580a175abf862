"""Builds an index in chunks: a kill only loses the current chunk, and a second build continues."""

from __future__ import annotations

import asyncio
import itertools
import resource
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cases.documents import Document
from ranking.encoding.vectors import Vectors
from retrieval.building import Built, Progress, building, versions
from retrieval.corpus.corpus import Corpus
from retrieval.embeddings import DEFAULT_EMBEDDING, BatchEmbedder, Embedder, ServerEmbedder, connect_embedder
from retrieval.index.connect_store import STORES, check_store, connect_store
from retrieval.index.manifest import IndexedCorpus, Manifest
from retrieval.index.store import VectorStore
from serving.policy.gate import hold_for
from storage.errors import InputError

_QUERIES = 20
_FOUND = 100
_VERSIONS = (
    *("numpy", "torch", "sentence-transformers"),
    *(package for kind in STORES.values() for package in kind.packages),
)


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How an index is built.

    Attributes:
        store: Store of the vectors; names are in `retrieval.index.connect_store`.
        embedding: Embedder, by a name of `retrieval.embeddings.connect_embedder`.
        chunk: Documents between two marks of progress on disk.
        vectors_of: A finished index whose vectors are reused; missing ones are encoded.
    """

    store: str = "numpy"
    embedding: str = DEFAULT_EMBEDDING
    chunk: int = 1024
    vectors_of: Path | None = None


async def build_index(
    corpus_folder: Path,
    folder: Path,
    options: BuildOptions,
    *,
    embedder: Embedder | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Built[Manifest]:
    """Build an index at `folder`, or go on with one that was left; documents new to the corpus are added.

    Raises:
        InputError: The corpus, or `folder`: it holds something else, is being built by another process, or
            was built from another corpus or in another way.
        ModelError, WeightsError: The store or the embedding cannot be used.
        PolicyError: The documents may not be sent to one of them.
        CallError: A server does not answer.
    """
    hold_for([corpus_folder, folder])
    check_store(options.store)
    corpus = Corpus.open(corpus_folder)
    embedder = embedder or connect_embedder(options.embedding)
    with building(folder, Manifest):
        return await _build(corpus, folder, options, embedder, report)


async def _build(
    corpus: Corpus,
    folder: Path,
    options: BuildOptions,
    embedder: Embedder,
    report: Callable[[Progress], None],
) -> Built[Manifest]:
    current = IndexedCorpus.of(corpus)
    manifest = Manifest.read(folder)
    if manifest is None:
        manifest = await _begun(current, options, embedder)
    else:
        _refuse_others(folder, manifest, current, options, embedder)
        if manifest.complete and manifest.corpus == current:
            return Built(manifest, manifest.documents, unchanged=True)
    found = manifest.documents
    source = None
    if options.vectors_of is not None:
        source = _open_source(options.vectors_of, manifest)
    manifest.complete, manifest.corpus = False, current
    manifest.write(folder)
    store = connect_store(folder, manifest)
    try:
        if store.count < found:
            fault = f"its store holds {store.count:,} vectors, and {found:,} were stored"
            raise InputError(folder, fault, "Build into another folder")
        build = _Build(corpus, folder, manifest, store, embedder, source, options.chunk, report)
        await build.run()
        manifest.query_ms = await asyncio.to_thread(_query_ms, store)
    finally:
        store.close()
        if source is not None:
            source.close()
    manifest.complete = True
    manifest.versions = versions(_VERSIONS)
    manifest.write(folder)
    return Built(manifest, found, unchanged=False)


def _open_source(folder: Path, wanted: Manifest) -> VectorStore:
    """The store of a finished index whose vectors are the same."""
    manifest = Manifest.read_finished(folder)
    for name in ("embedder", "dimensions", "passages"):
        theirs, ours = getattr(manifest, name), getattr(wanted, name)
        if theirs != ours:
            fault = f"was built with {name} {theirs}, and {ours} is asked for"
            raise InputError(folder, fault, "Leave out --vectors-of")
    return connect_store(folder, manifest)


async def _begun(corpus: IndexedCorpus, options: BuildOptions, embedder: Embedder) -> Manifest:
    dimensions = (await embedder.aembed(["one"])).shape[1]
    return Manifest(
        store=options.store,
        collection=f"evigraph-{secrets.token_hex(6)}",
        embedding=options.embedding,
        embedder=embedder.identity,
        dimensions=dimensions,
        corpus=corpus,
    )


def _refuse_others(
    folder: Path, manifest: Manifest, corpus: IndexedCorpus, options: BuildOptions, embedder: Embedder
) -> None:
    """Compare the chunks built so far with the request."""
    pairs = (
        ("embedder", manifest.embedder, embedder.identity),
        ("store", manifest.store, options.store),
    )
    for name, before, now in pairs:
        if before != now:
            fault = f"was built with {name} {before}, and {now} is asked for"
            raise InputError(folder, fault, "Build into another folder")
    if not manifest.corpus.grew_to(corpus):
        fault = f"was built from the corpus {manifest.corpus.folder}, not from {corpus.folder}"
        raise InputError(folder, fault, "Build into another folder")


_SLICE = 128
_REQUESTS = 8


def passage(document: Document) -> str:
    """Text of a document that is embedded."""
    return f"{document.title}. {document.text}" if document.title else document.text


async def encode(
    embedder: Embedder, texts: Sequence[str], report: Callable[[int], None] = lambda done: None
) -> Vectors:
    """One vector a text, in their order; shape (texts, dimensions).

    Texts of like length go together, the longest first: padding costs as much as words. A server gets
    several requests at once.

    Raises:
        CallError: The embedding's server does not answer.
    """
    order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
    slices = [order[start : start + _SLICE] for start in range(0, len(order), _SLICE)]
    room = asyncio.Semaphore(_REQUESTS if isinstance(embedder, ServerEmbedder) else 1)
    done = 0

    async def one(places: Sequence[int]) -> Vectors:
        nonlocal done
        some = [texts[place] for place in places]
        async with room:
            if isinstance(embedder, BatchEmbedder):
                vectors = await asyncio.to_thread(embedder.embed_batches, some)
            else:
                vectors = await embedder.aembed(some)
        done += len(some)
        report(done)
        return vectors

    tasks = [asyncio.create_task(one(places)) for places in slices]
    try:
        sorted_vectors = np.concatenate(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
    vectors = np.empty_like(sorted_vectors)
    vectors[order] = sorted_vectors
    return vectors


class _Build:
    """One session: reading goes ahead of the encoding, and storing comes after it, each in a thread."""

    def __init__(
        self,
        corpus: Corpus,
        folder: Path,
        manifest: Manifest,
        store: VectorStore,
        embedder: Embedder,
        source: VectorStore | None,
        chunk: int,
        report: Callable[[Progress], None],
    ) -> None:
        self._folder, self._manifest, self._store = folder, manifest, store
        self._embedder, self._source, self._chunk, self._report = embedder, source, chunk, report
        self._total = len(corpus)
        self._documents = corpus.since(manifest.documents)
        # Chunks are stored in order, so nothing follows the first gap.
        self._stored_before = store.count

    async def run(self) -> None:
        first = self._manifest.documents
        reading = asyncio.create_task(asyncio.to_thread(self._next))
        storing: asyncio.Task[None] | None = None
        self._begin, self._before = time.perf_counter(), self._manifest.effort.model_copy()
        self._tell(first)
        try:
            while documents := await reading:
                reading = asyncio.create_task(asyncio.to_thread(self._next))
                known = await self._known(first, documents)
                vectors = await self._vectors(first + known, documents[known:])
                if storing:
                    await storing
                storing = asyncio.create_task(self._add(first + known, documents[known:], vectors))
                first += len(documents)
            if storing:
                await storing
        finally:
            for task in filter(None, (reading, storing)):
                await asyncio.gather(task, return_exceptions=True)

    def _next(self) -> list[Document]:
        return list(itertools.islice(self._documents, self._chunk))

    async def _known(self, first: int, documents: Sequence[Document]) -> int:
        """How many of them are stored: a kill may have come between their storing and its mark."""
        if first >= self._stored_before:
            return 0
        ids = [document.id for document in documents]
        stored = await asyncio.to_thread(self._store.stored, first, ids)
        return len(documents) if stored.all() else int(np.argmin(stored))

    async def _vectors(self, first: int, documents: Sequence[Document]) -> Vectors:
        effort, begin = self._manifest.effort, time.perf_counter()
        if not documents:
            return np.empty((0, self._manifest.dimensions), dtype=np.float32)
        if self._source is not None:
            ids = [document.id for document in documents]
            if (await asyncio.to_thread(self._source.stored, first, ids)).all():
                copies = await asyncio.to_thread(self._source.vectors, first, len(ids))
                effort.copied = True
                self._tell(first + len(documents))
                return copies
        texts = [passage(document) for document in documents]
        vectors = await encode(self._embedder, texts, lambda done: self._tell(first + done))
        effort.encoding_seconds += time.perf_counter() - begin
        return vectors

    async def _add(self, first: int, documents: Sequence[Document], vectors: Vectors) -> None:
        begin = time.perf_counter()
        if documents:
            ids = [document.id for document in documents]
            await asyncio.to_thread(self._store.add, first, ids, vectors)
        now = time.perf_counter()
        effort = self._manifest.effort
        effort.documents += len(documents)
        effort.storing_seconds += now - begin
        effort.seconds = self._before.seconds + now - self._begin
        effort.peak_mb = max(effort.peak_mb, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        self._manifest.documents = first + len(documents)
        self._manifest.write(self._folder)

    def _tell(self, done: int) -> None:
        self._report(Progress("encoding", done, self._total, done))


def _query_ms(store: VectorStore) -> float | None:
    """The store's median time for the nearest of vectors that it holds."""
    count = store.count
    times = []
    for query in range(min(_QUERIES, count)):
        vector = store.vectors(query * count // _QUERIES, 1)
        begin = time.perf_counter()
        store.search(vector, _FOUND)
        times.append(1000 * (time.perf_counter() - begin))
    return round(float(np.median(times)), 3) if times else None
