"""Stores of vectors by one string: `numpy`, `chroma`, `qdrant`, `qdrant@http://host:6333`."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from retrieval.index.manifest import Manifest, Quantisation
from retrieval.index.store import VectorStore
from serving.errors import ModelError

STORES = ("numpy", "chroma", "qdrant")
_PLACE = "vectors"
_LOCAL_COLLECTION = "documents"


def check_store(name: str, quantisation: Quantisation | None = None) -> None:
    """Refuse what no store can do, before anything is opened.

    Raises:
        ModelError: There is no such store, its URL is none, or it does not quantise.
    """
    kind, at, url = name.partition("@")
    if kind not in STORES or (at and kind != "qdrant"):
        raise ModelError(f"unknown store {name!r}: use numpy, chroma, qdrant or qdrant@http://host:6333")
    if at and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
        raise ModelError(f"store {name!r}: {url!r} is no URL of a server, such as http://host:6333")
    if quantisation and kind != "numpy":
        raise ModelError(f"the store {kind} takes no quantised vectors; use numpy, or leave that out")


def server_of(store: str) -> str | None:
    """The URL in a store's name; None where vectors lie in the index's own folder."""
    return store.partition("@")[2] or None


def connect_store(folder: Path, manifest: Manifest) -> VectorStore:
    """Open the store of an index, or begin it.

    Raises:
        ModelError: Its package is missing.
        CallError: Its server does not answer.
        InputError: Its files cannot be read.
    """
    check_store(manifest.store, manifest.quantisation)
    place = folder / _PLACE
    # Each store brings what the others do without.
    if manifest.store == "numpy":
        from retrieval.index.numpy_store import NumpyStore

        return NumpyStore(place, manifest.dimensions, quantised=manifest.quantisation is not None)
    if manifest.store == "chroma":
        from retrieval.index.chroma_store import ChromaStore

        return ChromaStore(place)
    from retrieval.index.qdrant_store import QdrantStore

    url = server_of(manifest.store)
    if url is None:
        return QdrantStore(place, _LOCAL_COLLECTION, manifest.dimensions)
    return QdrantStore(url, manifest.collection, manifest.dimensions)
