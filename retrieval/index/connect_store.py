"""Kinds of stores of vectors, by one string: `numpy`, `chroma`, `qdrant`, `qdrant@http://host:6333`.

A further kind is a line in `STORES` and a file `NAME_store.py` next to this one, with a function `open_store`
that takes a `StorePlace` and returns a `VectorStore`. It may import its package at its top.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from retrieval.index.manifest import Manifest
    from retrieval.index.store import VectorStore

_PLACE = "vectors"


@dataclass(frozen=True, slots=True)
class StoreKind:
    """Properties of a kind of store.

    Attributes:
        about: For help, in a few words.
        packages: Whose versions are recorded with an index.
        extra: Extra of this distribution with the package it needs.
        server: URL of a server as an example; None if vectors are only in the index's own folder.
        key_variable: Environment variable with the key of a server that wants one.
    """

    about: str
    packages: tuple[str, ...] = ()
    extra: str | None = None
    server: str | None = None
    key_variable: str = ""


STORES: Mapping[str, StoreKind] = {
    "numpy": StoreKind("exact, mapped files"),
    "chroma": StoreKind("embedded HNSW", ("chromadb",)),
    "qdrant": StoreKind(
        "its client's local mode",
        ("qdrant-client",),
        extra="qdrant",
        server="http://host:6333",
        key_variable="QDRANT_API_KEY",
    ),
}


class StorePlace(NamedTuple):
    """Location of a store, and the width of its vectors.

    Attributes:
        folder: Of the store alone, inside of the index's; it may not be there yet.
        url: Of a server; None for the folder.
        collection: Name of the index's collection on a server.
    """

    folder: Path
    url: str | None
    collection: str
    dimensions: int


def store_names() -> str:
    """Every form of a name, as a sentence lists them."""
    names = [form for name, kind in STORES.items() for form in _forms(name, kind)]
    return f"{', '.join(names[:-1])} or {names[-1]}"


def store_help() -> str:
    """Names of the kinds with their descriptions."""
    described = [f"{name} ({kind.about})" for name, kind in STORES.items()]
    servers = [form for name, kind in STORES.items() for form in _forms(name, kind)[1:]]
    forms = [*described, *servers]
    return f"{', '.join(forms[:-1])}, or {forms[-1]}."


def check_store(name: str) -> None:
    """Refuse what no store can do, before anything is opened.

    Raises:
        ModelError: The store is unknown, or its URL is invalid or holds a secret.
        PolicyError: Sending text to its server is forbidden.
    """
    from serving.policy.gate import demand_route
    from serving.protocol.addresses import redacted
    from serving.protocol.errors import ModelError
    from serving.protocol.keys import check_address

    kind, at, url = name.partition("@")
    if at and kind in STORES:
        check_address(url, f"store {name!r}", STORES[kind].key_variable)
    if kind not in STORES or (at and STORES[kind].server is None):
        raise ModelError(f"unknown store {redacted(name)!r}: use {store_names()}")
    if at and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
        example = STORES[kind].server
        raise ModelError(f"store {name!r}: {url!r} is not a server URL, such as {example}")
    if at:
        demand_route(url, f"store {name!r}")


def kind_of(store: str) -> StoreKind:
    """The kind of a store whose name `check_store` accepts."""
    return STORES[store.partition("@")[0]]


def server_of(store: str) -> str | None:
    """The URL in a store's name; None if vectors are in the index's own folder."""
    return store.partition("@")[2] or None


def connect_store(folder: Path, manifest: Manifest) -> VectorStore:
    """Open the store of an index, or begin it.

    Raises:
        ModelError: Its package is missing.
        CallError: Its server does not answer.
        InputError: Its files cannot be read.
    """
    from serving.protocol.errors import ModelError

    check_store(manifest.store)
    name, extra = manifest.store.partition("@")[0], kind_of(manifest.store).extra
    try:
        # Each kind brings packages that the others do without.
        module = importlib.import_module(f"retrieval.index.{name}_store")
    except ImportError:
        if extra is None:
            raise
        needs = f"the store {name} needs the extra `{extra}`: pip install -e '.[{extra}]' in the clone"
        raise ModelError(needs) from None
    place = StorePlace(
        folder=folder / _PLACE,
        url=server_of(manifest.store),
        collection=manifest.collection,
        dimensions=manifest.dimensions,
    )
    store: VectorStore = module.open_store(place)
    return store


def _forms(name: str, kind: StoreKind) -> list[str]:
    return [name] if kind.server is None else [name, f"{name}@{kind.server}"]
