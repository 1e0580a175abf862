"""A pool in a folder: a store of Chroma, and a manifest that names it."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import chromadb
from chromadb.api import ClientAPI
from chromadb.config import Settings
from chromadb.errors import ChromaError
from pydantic import TypeAdapter

from cases.records import Case, LabelSource
from retrieval.embeddings import Embedder
from retrieval.pools.compared import View, answer_text, evidence_text, fingerprint
from serving.protocol.errors import ModelError
from storage.private import private_folder

REVIEWED = "reviewed"
"""Source of a demonstration whose gold comes from reviews of a run."""

MANIFEST = "pool.json"
"""Names the store that is valid, so that a rebuilt pool takes the place of the old one in one step."""

CASE_OF_DOCUMENT = TypeAdapter(Case)
"""A document of a pool is a case in JSON."""

_STORE = "store-"
_BATCH = 256


@contextmanager
def whole_pool(folder: Path) -> Iterator[None]:
    """Reading a pool, of which any part may be damaged.

    Raises:
        ModelError: It is.
    """
    try:
        yield
    except (ValueError, KeyError, TypeError, ChromaError) as error:
        fault = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"{folder} is not a complete demonstration pool ({fault}): build it again") from None


def open_store(folder: Path) -> tuple[dict[str, Any], dict[View, chromadb.Collection]]:
    """Manifest and views of a pool.

    Raises:
        ModelError: The folder does not contain a pool, or it is damaged.
    """
    if not (folder / MANIFEST).is_file():
        raise ModelError(f"no demonstration pool in {folder}: build one with `evigraph demos build`")
    with whole_pool(folder):
        metadata: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
        client = _client(folder / metadata["store"])
        return metadata, {view: client.get_collection(view) for view in get_args(View)}


async def build_pool(
    folder: Path,
    cases: Iterable[Case],
    embedder: Embedder,
    source: LabelSource | None = None,
    reviewed: Collection[str] = (),
) -> int:
    """Build a pool of annotated cases; an existing one is replaced at the very end.

    Each case needs labels or an answer; its intent may be missing. A source holds for all cases; without one,
    each case states its own. Gold of reviewed ids comes from reviews of a run. Returns the number of cases.

    Raises:
        ModelError: No case can serve, weak labels are called gold, or the folder holds something else.
    """
    _refuse_foreign(folder)
    ordered = [_from_source(case, source) for case in sorted(cases, key=lambda case: case.id)]
    if not ordered:
        raise ModelError("no annotated cases to build a pool from: is the key file the right one?")
    store = folder / f"{_STORE}{secrets.token_hex(4)}"
    private_folder(folder)
    private_folder(store)
    documents = b"\n".join(_document(case) for case in ordered)
    manifest = {
        "store": store.name,
        "embedder": embedder.identity,
        "count": len(ordered),
        "sha256": hashlib.sha256(documents).hexdigest(),
    }
    try:
        await _fill(_client(store), ordered, embedder, frozenset(reviewed))
        temporary = folder / f".{MANIFEST}.{store.name}"
        temporary.write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
        temporary.replace(folder / MANIFEST)
    except BaseException:
        shutil.rmtree(store, ignore_errors=True)
        raise
    for old in folder.glob(f"{_STORE}*"):
        if old != store:
            shutil.rmtree(old, ignore_errors=True)
    return len(ordered)


def _from_source(case: Case, source: LabelSource | None) -> Case:
    if source is None:
        return case
    if source == "gold" and case.gold.label_source == "weak":
        raise ModelError(f"case {case.id!r} has weak labels by its key: a pool cannot call them gold")
    return replace(case, gold=replace(case.gold, label_source=source))


def _document(case: Case) -> bytes:
    """A case in stored form. Gold needs no mark, and pools of older versions lack it."""
    unmarked = case.gold.label_source == "gold"
    return CASE_OF_DOCUMENT.dump_json(case, exclude={"gold": {"label_source"}} if unmarked else None)


def _refuse_foreign(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ModelError(f"{folder} is a file: choose a folder for the pool")
    strangers = [
        entry.name for entry in folder.iterdir() if not entry.name.startswith((_STORE, f".{MANIFEST}"))
    ]
    if strangers and MANIFEST not in strangers:
        raise ModelError(f"{folder} holds other files ({strangers[0]}): choose an empty or a new folder")


async def _fill(
    client: ClientAPI, cases: Sequence[Case], embedder: Embedder, reviewed: frozenset[str]
) -> None:
    """One collection a view; a case is in those that it can serve: with labels, with an answer."""
    texts = {
        "evidence": [(case, evidence_text(case)) for case in cases if case.gold.labels],
        "answer": [
            (case, answer_text(case, case.gold.intent.primary if case.gold.intent else None))
            for case in cases
            if case.gold.answer
        ],
    }
    for view, members in texts.items():
        collection = client.create_collection(
            view,
            embedding_function=None,
            configuration={"hnsw": {"space": "cosine"}},
        )
        for start in range(0, len(members), _BATCH):
            batch = members[start : start + _BATCH]
            collection.add(
                ids=[case.id for case, _ in batch],
                embeddings=await embedder.aembed([text for _, text in batch]),
                documents=[_document(case).decode() for case, _ in batch],
                metadatas=[_metadata(case, case.id in reviewed) for case, _ in batch],
            )


def _metadata(case: Case, reviewed: bool) -> dict[str, str]:
    intent = case.gold.intent
    return {
        "intent": intent.primary if intent else "",
        "secondary_intent": (intent.secondary or "") if intent else "",
        "source": REVIEWED if reviewed else case.gold.label_source,
        "fingerprint": fingerprint(case),
    }


@cache
def _settings() -> Settings:
    """Settings without telemetry; reading the others takes as long as opening a pool."""
    return Settings(anonymized_telemetry=False)


def _client(folder: Path) -> ClientAPI:
    return chromadb.PersistentClient(path=str(folder), settings=_settings().model_copy())
