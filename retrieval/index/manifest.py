"""Manifest of an index: `index.json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from retrieval.building import BuildManifest, Fields
from retrieval.corpus.corpus import Corpus

PASSAGES = "title, full stop, text"
"""Change together with the embedded text of documents; identifies incompatible indexes."""


class IndexedCorpus(Fields):
    """The corpus whose documents are in the index.

    Attributes:
        identity: Of the corpus as it was when the index was finished.
        sources: SHA-256 of the files that it was built from; a corpus that grew has more behind them.
    """

    folder: str
    identity: str
    documents: int
    sources: list[str]
    reader: str | None = None

    @classmethod
    def of(cls, corpus: Corpus) -> IndexedCorpus:
        """Record of an opened corpus in an index."""
        manifest = corpus.manifest
        return cls(
            folder=str(corpus.folder.resolve()),
            identity=corpus.identity,
            documents=len(corpus),
            sources=[source.sha256 for source in manifest.sources],
            reader=manifest.settings.reader,
        )

    def grew_to(self, other: IndexedCorpus) -> bool:
        """Whether `other` begins with the same documents in the same order."""
        return self.reader == other.reader and self.sources == other.sources[: len(self.sources)]


class Effort(Fields):
    """Total effort of all sessions of the build; a killed session counts up to its last chunk.

    Attributes:
        copied: Whether vectors of another index are among them, which were not encoded here.
        seconds: From the first chunk to the last, loading aside.
        encoding_seconds: Of those, seconds of encoding.
        storing_seconds: Seconds of storing vectors, mostly in parallel to encoding.
        peak_mb: The most resident memory of a session, in MB of 2**20 bytes.
    """

    documents: int = 0
    copied: bool = False
    seconds: float = 0.0
    encoding_seconds: float = 0.0
    storing_seconds: float = 0.0
    peak_mb: float = 0.0


class Manifest(BuildManifest):
    """The content of `index.json`.

    Attributes:
        collection: Name of the collection on a server.
        embedder: Its identity, including its weights.
        documents: Stored, counted at the end of each chunk.
        query_ms: Median time of the store for the first hundred of a query, measured at the end.
        versions: Of the packages that vectors and their files depend on.
    """

    FILE = "index.json"
    WHAT = "index"
    COMMAND = "evigraph index build CORPUS"

    format: Literal[1] = 1
    passages: str = PASSAGES
    store: str
    collection: str = ""
    embedding: str
    embedder: str
    dimensions: int
    corpus: IndexedCorpus
    documents: int = 0
    effort: Effort = Effort()
    query_ms: float | None = None
    versions: dict[str, str] = Field(default_factory=dict)
