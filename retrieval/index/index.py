"""An index on disk, opened for searching."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cases.texts import json_sha256, plural, quoted
from ranking.encoding.vectors import Vectors
from retrieval.corpus.corpus import Corpus
from retrieval.embeddings import Embedder, connect_embedder
from retrieval.index.connect_store import connect_store
from retrieval.index.manifest import IndexedCorpus, Manifest
from retrieval.index.store import VectorStore
from retrieval.protocols import Hit
from storage.errors import InputError


class Index:
    """Documents by the cosine of their vectors with a query's; their texts are read from the corpus."""

    def __init__(
        self, folder: Path, manifest: Manifest, corpus: Corpus, embedder: Embedder, store: VectorStore
    ) -> None:
        self.folder, self.manifest, self.corpus = folder, manifest, corpus
        self.store = store
        self._embedder = embedder

    @classmethod
    def open(cls, folder: Path, corpus: Corpus | None = None) -> Index:
        """Open a finished index over a corpus, or the one that it names; weights load at the first question.

        Raises:
            InputError: The index at `folder` is incomplete, or its corpus differs or has changed.
            ModelError, WeightsError: The embedder is not there or has other weights; the store's package is
                missing.
            CallError: The server of the vectors does not answer.
        """
        manifest = Manifest.read_finished(folder)
        found = corpus or open_corpus(folder, manifest)
        refuse_other_corpus(folder, manifest, found)
        embedder = connect_embedder(manifest.embedding)
        if embedder.identity != manifest.embedder:
            fault = f"its vectors were made by {manifest.embedder}, and {manifest.embedding} is now"
            raise InputError(folder, f"{fault} {embedder.identity}", "Build an index anew, in another folder")
        store = connect_store(folder, manifest)
        if store.count != manifest.documents:
            fault = f"its store holds {store.count:,} vectors, and {manifest.documents:,} were stored"
            store.close()
            raise InputError(folder, fault, "Build it anew, in another folder")
        return cls(folder, manifest, found, embedder, store)

    @property
    def identity(self) -> str:
        """Equal for the same documents embedded by the same weights."""
        manifest = self.manifest
        given = [manifest.passages, manifest.embedder, manifest.corpus.sources, manifest.corpus.reader]
        return f"dense:{json_sha256(given)[:16]}"

    def __len__(self) -> int:
        return self.manifest.documents

    async def asearch(self, query: str, k: int) -> list[Hit]:
        """The `k` nearest documents, nearest first, equals in the order of the corpus.

        Raises:
            CallError: The server of the embedding or of the vectors does not answer.
        """
        if k < 1:
            return []
        vector = await self._embedder.aembed([query])
        (found,) = await asyncio.to_thread(self.store.search, vector, min(k, len(self)))
        return await asyncio.to_thread(self.corpus.hits, found)

    async def aembed(self, queries: list[str]) -> Vectors:
        return await self._embedder.aembed(queries)

    def close(self) -> None:
        self.store.close()


def open_corpus(folder: Path, manifest: Manifest) -> Corpus:
    """The corpus that an index names.

    Raises:
        InputError: It is not where it was.
    """
    place = Path(manifest.corpus.folder)
    if not place.is_dir():
        raise InputError(folder, f"its corpus is no longer at {place}", "Name its folder: --corpus FOLDER")
    return Corpus.open(place)


def refuse_other_corpus(folder: Path, manifest: Manifest, corpus: Corpus) -> None:
    """Compare the corpus that an index was built from with one that is there.

    Raises:
        InputError: They differ.
    """
    if manifest.corpus.identity == corpus.identity:
        return
    current = IndexedCorpus.of(corpus)
    if manifest.corpus.grew_to(current):
        fault = (
            f"the corpus {corpus.folder} was built again since, and has {plural(len(corpus), 'document')} now"
        )
        raise InputError(folder, fault, "Repeat the command that builds the index: it continues")
    raise InputError(
        folder,
        f"was built from the corpus {manifest.corpus.folder}, not from {corpus.folder}",
        "Use that one, or build an index of this one:"
        f" evigraph index build {quoted(corpus.folder)} --out OTHER",
    )
