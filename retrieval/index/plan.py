"""What an index of many documents would take, by the figures of the build of a smaller one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from cases.errors import InputError
from retrieval.index.connect_store import server_of
from retrieval.index.manifest import Manifest

_FLOAT_BYTES = 4
_LINKS_BYTES = 2 * 24 * 4 + 12
"""Of a vector in Chroma's index: two dozen neighbours twice at its lowest level, and a label."""


class Plan(NamedTuple):
    """An estimate. Sizes are bytes; None is what was not measured or lies on a server.

    Attributes:
        measured: Documents that the figures come from.
        seconds: Of the build, on the same machine.
        encoding_seconds: Of those, for texts to become vectors.
        disk_bytes: Of the index.
        corpus_bytes: Of the corpus beside it.
        query_bytes: What a query reads, all of it: it is quick where so much memory is free. Computed from
            the sizes of vectors, not measured.
        query_ms: Of the store for the first hundred, encoding aside.
    """

    documents: int
    measured: int
    seconds: float
    encoding_seconds: float
    disk_bytes: int | None
    corpus_bytes: int | None
    query_bytes: int | None
    query_ms: float | None


def plan(folder: Path, manifest: Manifest, documents: int) -> Plan:
    """Go on from what the build of `folder` took to `documents`.

    All grows with the documents, but for Chroma's time of a query, which grows with their logarithm, as does
    its time to store a vector.

    Raises:
        InputError: The build has recorded no figures, or not those of encoding.
    """
    effort = manifest.effort
    if effort.copied:
        fault = "its vectors were copied from another index, so that it tells nothing of encoding"
        raise InputError(folder, fault, "Plan by that one")
    if not effort.documents or not manifest.documents:
        raise InputError(folder, "its build has recorded no times", "Build an index anew, in another folder")
    growth = documents / manifest.documents
    levels = max(1.0, math.log(documents) / math.log(max(2, manifest.documents)))
    walks = manifest.store == "chroma"
    repeated = documents / effort.documents
    storing = effort.storing_seconds * repeated * (levels if walks else 1.0)
    on_server = server_of(manifest.store) is not None
    corpus = Path(manifest.corpus.folder)
    query_ms = manifest.query_ms
    if query_ms is not None:
        query_ms = None if on_server else query_ms * (levels if walks else growth)
    return Plan(
        documents=documents,
        measured=manifest.documents,
        # Storing goes on beside the encoding until it takes longer.
        seconds=max(effort.seconds * repeated, storing),
        encoding_seconds=effort.encoding_seconds * repeated,
        disk_bytes=None if on_server else round(bytes_in(folder) * growth),
        corpus_bytes=round(bytes_in(corpus) * growth) if corpus.is_dir() else None,
        query_bytes=None if on_server else documents * _bytes_a_vector(manifest),
        query_ms=query_ms,
    )


def bytes_in(folder: Path) -> int:
    """Of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _bytes_a_vector(manifest: Manifest) -> int:
    if manifest.quantisation:
        return manifest.dimensions + _FLOAT_BYTES
    return manifest.dimensions * _FLOAT_BYTES + (_LINKS_BYTES if manifest.store == "chroma" else 0)
