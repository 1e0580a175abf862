"""A pool of a folder, put on a Chroma server."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from retrieval.pools.folder import StoredView, open_store
from retrieval.pools.neighbours import Records
from retrieval.pools.server import (
    ALL_FIELDS,
    ContentHash,
    PoolAddress,
    ServedView,
    Server,
    find_collection,
    parse_pool_address,
)
from serving.errors import CallError, ModelError
from serving.policy import HeldPolicy

_BATCH = 256


def push_pool(
    folder: Path, url: str, policies: Iterable[HeldPolicy], *, replace: bool = False
) -> tuple[PoolAddress, bool]:
    """Put a pool on a server; it is there whole or not at all.

    Args:
        folder: The pool's.
        url: Of the server, with or without the name of a collection.
        policies: Of its cases, which bind all that open it there.
        replace: Whether another pool of this name may be replaced.

    Returns:
        Where it is, and whether it has been put there; it may have been there already.

    Raises:
        CallError: The server does not answer, or refuses.
        ModelError: There is no pool in the folder, the name is taken, or the server gives back other records
            than it was given.
        PolicyError: No text may go to the server.
    """
    address = parse_pool_address(url)
    # Before the pool is read, which may be large.
    server = Server(address)
    metadata, stored = open_store(folder)
    del metadata["store"]
    views = {view: _records(one) for view, one in stored.items()}
    sent = ContentHash()
    for view, records in views.items():
        sent.add(view, records)
    token = secrets.token_hex(4)
    made = {view: f"{address.collection}-{token}-{view}" for view in views}
    description = {
        **metadata,
        "views": made,
        "content": sent.hexdigest(),
        "policies": [policy.model_dump(mode="json") for policy in policies],
    }
    standing = find_collection(server, address.collection)
    known = _described(standing)
    if known is not None and (known.get("content"), known.get("policies")) == (
        description["content"],
        description["policies"],
    ):
        return address, False
    if standing is not None and not (replace and known is not None):
        what = "another pool" if known is not None else "a collection that is no pool"
        way = "name another collection" + (", or pass --replace" if known is not None else "")
        raise ModelError(f"{address}: {what} is there already, and runs may refer to it; {way}")
    try:
        kept = ContentHash()
        for view, records in views.items():
            for page in _filled(server, made[view], records).pages(include=ALL_FIELDS):
                kept.add(view, page)
        if kept.hexdigest() != sent.hexdigest():
            raise ModelError(f"{address}: the server gives back other records than it was given")
        pointer = {"evigraph": json.dumps(description)}
        if standing is None:
            server.ask("POST", "", {"name": address.collection, "metadata": pointer})
        else:
            server.ask("PUT", f"/{standing['id']}", {"new_metadata": pointer})
    except BaseException:
        _remove(server, made.values())
        raise
    if known is not None:
        _remove(server, known["views"].values())
    return address, True


def _records(view: StoredView) -> Records:
    found = view.get(include=ALL_FIELDS)
    embeddings = found["embeddings"]
    assert embeddings is not None
    return {
        "ids": found["ids"],
        "documents": found["documents"],
        "metadatas": [dict(metadata) for metadata in found["metadatas"] or []],
        "embeddings": np.asarray(embeddings, dtype=np.float32).tolist(),
    }


def _filled(server: Server, name: str, records: Records) -> ServedView:
    # Of unit vectors the inner product is the cosine, and the server leaves the bits of vectors alone.
    body = {"name": name, "configuration": {"hnsw": {"space": "ip"}}}
    id_ = server.ask("POST", "", body)["id"]
    for start in range(0, len(records["ids"]), _BATCH):
        batch = {name: values[start : start + _BATCH] for name, values in records.items()}
        # A batch that a lost connection cut off may be there already.
        server.ask("POST", f"/{id_}/upsert", batch)
    return ServedView(server, id_)


def _remove(server: Server, names: Iterable[str]) -> None:
    for name in names:
        with suppress(CallError):
            server.ask("DELETE", f"/{quote(name, safe='')}")


def _described(collection: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What a pool says of itself; None for a collection that is none."""
    try:
        found = json.loads((collection or {})["metadata"]["evigraph"])
    except (KeyError, TypeError, ValueError):
        return None
    return found if isinstance(found, dict) else None
