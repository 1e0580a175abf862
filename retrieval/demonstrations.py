"""The pool of demonstrations in Chroma: annotated cases, found again by meaning and by intent."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import shutil
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import chromadb
import numpy as np
from chromadb.api import ClientAPI
from chromadb.config import Settings
from chromadb.errors import ChromaError
from pydantic import TypeAdapter

from cases.private import private_folder
from cases.records import Case, Gold, LabelSource
from retrieval.embeddings import Embedder, Vectors
from retrieval.pool_server import PoolAddress, Records, ServedPool, parse_pool_address, push
from serving.errors import ModelError
from serving.gate import demand_host
from serving.journal import text_hash
from serving.policy import HeldPolicy

View = Literal["evidence", "answer"]
"""Which text of a case is compared: with or without its intent (`evidence_text`, `answer_text`)."""

Source = LabelSource

REVIEWED = "reviewed"
"""Source of a demonstration whose gold comes from reviews of a run."""

EXACT_UP_TO = 10_000
"""Largest pool that is ranked exactly. Below it an approximate index misses neighbours for no gain."""

MANIFEST = "pool.json"
"""Names the store that is valid, so that a rebuilt pool takes the place of the old one in one step."""

_CASE = TypeAdapter(Case)
_STORE = "store-"
_BATCH = 256
_REMEMBERED_BYTES = 48 * 2**20
"""Of vectors of cases: those of 30,000 texts by the packaged encoder. Where models answer in batches, a case
asks for its own again in every round, after all others have."""

_CASES_REMEMBERED = 512

_AHEAD = 32
"""Texts embedded at once ahead of time; those that are needed now must not wait for hundreds."""

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A demonstration at its cosine distance (0 is the same direction, 2 the opposite one)."""

    case_id: str
    distance: float
    intent: str | None
    secondary_intent: str | None
    source: str


def evidence_text(case: Case) -> str:
    """What evidence demonstrations are compared by: question and narrative."""
    return f"{case.question} {case.narrative}".strip()


def answer_text(case: Case, intent: str | None) -> str:
    """What answer demonstrations are compared by: intent, question and narrative (TAMU 2026, eq. 24)."""
    return f"{intent or ''} {case.question} {case.narrative}".strip()


class DemonstrationPool:
    """A pool that was built, opened for reading: in a folder, or on a Chroma server.

    Rankings are exact, by distance and then by id, up to `EXACT_UP_TO` demonstrations; beyond it Chroma's
    index answers. A pool on a server is read whole when it is opened; up to that size it stays in memory, and
    the server is asked no more.
    """

    def __init__(self, place: Path | str, embedder: Embedder) -> None:
        """Open a pool in a folder, or at the URL of a server.

        Raises:
            ModelError: There is none, or other weights made its vectors.
            CallError: The server does not answer, or refuses.
            PolicyError: No text may go to the server.
        """
        self.place = place
        self._embedder = embedder
        self._cases: OrderedDict[str, Case] = OrderedDict()
        self._exact: dict[str, _Matrix | None] = dict.fromkeys(get_args(View))
        self._twins: dict[str, dict[str, list[str]]] | None = None
        if isinstance(place, str):
            self._open_served(ServedPool(place, get_args(View)))
        else:
            self._open_folder(place)
        self._vectors: OrderedDict[str, Vectors] = OrderedDict()

    def _open_folder(self, folder: Path) -> None:
        if not (folder / MANIFEST).is_file():
            raise ModelError(f"no demonstration pool in {folder}: build one with `evigraph demos build`")
        self._remembers = _CASES_REMEMBERED
        with _whole(folder):
            self.metadata: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
            client = _client(folder / self.metadata["store"])
            self._views: dict[str, _View] = {
                view: _Stored(folder, client.get_collection(view)) for view in get_args(View)
            }
        self._demand_embedder()
        if len(self) <= EXACT_UP_TO:
            for view, stored in self._views.items():
                self._exact[view] = _Matrix(stored.get(include=["embeddings", "metadatas"]))

    def _open_served(self, served: ServedPool) -> None:
        self.place = str(served.address)
        self.metadata = served.metadata
        self._demand_embedder()
        small = len(self) <= EXACT_UP_TO
        self._remembers = len(self) if small else _CASES_REMEMBERED
        self._views = dict(served.views)
        kept: dict[str, list[Records]] = {view: [] for view in self._views}
        self._twins = {view: {} for view in self._views}
        for view, page in served.read():
            for id_, metadata in zip(page["ids"], page["metadatas"], strict=True):
                self._twins[view].setdefault(str(metadata["fingerprint"]), []).append(id_)
            if small:
                kept[view].append(page)
                self._remember_cases(page)
        if small:
            for view, pages in kept.items():
                self._exact[view] = _Matrix(_joined(pages))

    def _demand_embedder(self) -> None:
        made_by = self.metadata.get("embedder")
        if made_by != self._embedder.identity:
            preposition = "at" if isinstance(self.place, str) else "in"
            raise ModelError(
                f"the pool {preposition} {self.place} was embedded by {made_by}, this recipe uses"
                f" {self._embedder.identity}: build the pool again or change `embedding`"
            )

    @property
    def record(self) -> dict[str, Any]:
        """What a run records of it; of a pool on a server also a hash of all that the server holds of it."""
        where = (
            {"url": self.place, "content": self.metadata["content"]}
            if isinstance(self.place, str)
            else {"folder": str(self.place.resolve())}
        )
        return {
            **where,
            "sha256": self.sha256,
            "embedder": str(self.metadata["embedder"]),
            "count": len(self),
        }

    def __len__(self) -> int:
        return int(self.metadata["count"])

    @property
    def sha256(self) -> str:
        """Of all cases in the pool, in the order of their ids."""
        return str(self.metadata["sha256"])

    async def nearest(
        self,
        view: View,
        text: str,
        count: int,
        *,
        intent: str | None = None,
        excluded: Collection[str] = (),
        among: Collection[str] = (),
    ) -> list[Neighbour]:
        """The nearest demonstrations, nearest first.

        Args:
            view: What of a case is compared.
            text: What they are near to.
            count: How many, at most.
            intent: Only those of this primary intent.
            excluded: Ids that are never among them.
            among: Ids of the only ones that are looked at; none lets all in.
        """
        if count <= 0 or len(self) == 0:
            return []
        vector = await self._vector(text)
        exact = self._exact[view]
        if exact is not None:
            return exact.nearest(vector, count, intent, excluded, among)
        search = partial(self._search, view, vector, count, intent, excluded, among)
        return await asyncio.to_thread(search) if isinstance(self.place, str) else search()

    def _search(
        self,
        view: View,
        vector: Vectors,
        count: int,
        intent: str | None,
        excluded: Collection[str],
        among: Collection[str],
    ) -> list[Neighbour]:
        if not among:
            return self._approximate(view, vector, count, intent, excluded)
        # A filtered index misses neighbours; a list is short enough to rank.
        found = self._views[view].get(ids=sorted(among), include=["embeddings", "metadatas", "documents"])
        self._remember_cases(found)
        return _Matrix(found).nearest(vector, count, intent, excluded)

    def twins(self, case: Case) -> frozenset[str]:
        """Ids in the pool that are this case: the same id, or the same texts under another id."""
        return frozenset({case.id, *self._same_texts(case)})

    def holds(self, case: Case) -> bool:
        """Whether the texts of a case are in the pool, under any id."""
        return bool(self._same_texts(case))

    def _same_texts(self, case: Case) -> list[str]:
        text = fingerprint(case)
        return [id_ for view in get_args(View) for id_ in self._having(view, text)]

    async def embed_ahead(self, texts: Sequence[str]) -> None:
        """Embed texts that `nearest` is going to be asked for, in batches.

        Raises:
            CallError: The embedding's server does not answer.
        """
        missing = [text for text in dict.fromkeys(texts) if text_hash(text) not in self._vectors]
        for start in range(0, len(missing), _AHEAD):
            batch = missing[start : start + _AHEAD]
            for text, vector in zip(batch, await self._embedder.aembed(batch), strict=True):
                self._remember(text, vector)

    def _having(self, view: View, text: str) -> Sequence[str]:
        exact = self._exact[view]
        if exact is not None:
            return exact.having(text)
        if self._twins is not None:
            return self._twins[view].get(text, ())
        where: Any = {"fingerprint": text}
        found: list[str] = self._views[view].get(where=where, include=[])["ids"]
        return found

    def case(self, case_id: str) -> Case:
        """A demonstration with its labels and answer."""
        known = self._cases.get(case_id)
        if known is None:
            return self._load_case(case_id)
        with suppress(KeyError):
            # A thread that searches may have let it go meanwhile.
            self._cases.move_to_end(case_id)
        return known

    def neighbours(self) -> list[Neighbour]:
        """All demonstrations by id, at distance 0."""
        metadatas: dict[str, dict[str, Any]] = {}
        for view in self._views.values():
            found = view.get(include=["metadatas"])
            pairs = zip(found["ids"], found["metadatas"] or [], strict=True)
            metadatas |= {case_id: dict(metadata) for case_id, metadata in pairs}
        return [_neighbour(case_id, 0.0, metadatas[case_id]) for case_id in sorted(metadatas)]

    async def _vector(self, text: str) -> Vectors:
        known = self._vectors.get(text_hash(text))
        if known is None:
            (known,) = await self._embedder.aembed([text])
            self._remember(text, known)
        return known

    def _remember(self, text: str, vector: Vectors) -> None:
        self._vectors[text_hash(text)] = vector
        if len(self._vectors) * vector.nbytes > _REMEMBERED_BYTES:
            self._vectors.popitem(last=False)

    def _load_case(self, case_id: str) -> Case:
        for view in self._views.values():
            found = view.get(ids=[case_id], include=["documents"])
            if found["documents"]:
                self._remember_cases(found)
                return self._cases[case_id]
        raise KeyError(case_id)

    def _remember_cases(self, found: Records) -> None:
        with _whole(self.place):
            for id_, document in zip(found["ids"], found["documents"], strict=True):
                self._cases[id_] = _CASE.validate_json(document)
                self._cases.move_to_end(id_)
        while len(self._cases) > self._remembers:
            self._cases.popitem(last=False)

    def _approximate(
        self, view: View, vector: Vectors, count: int, intent: str | None, excluded: Collection[str]
    ) -> list[Neighbour]:
        # Of a pool on a server a case comes with what found it: nodes ask for it without awaiting.
        served = isinstance(self.place, str)
        found = self._views[view].query(
            query_embeddings=[vector.tolist()],
            n_results=count + len(excluded),
            where={"intent": intent} if intent else None,
            include=["metadatas", *(["documents", "embeddings"] if served else ["distances"])],
        )
        if served:
            rows = {name: found[name][0] for name in ("ids", "documents", "metadatas", "embeddings")}
            self._remember_cases(rows)
            return _Matrix(rows).nearest(vector, count, None, excluded)
        assert found["distances"] is not None and found["metadatas"] is not None
        ranked = zip(found["ids"][0], found["distances"][0], found["metadatas"][0], strict=True)
        kept = [(round(float(d), _DIGITS), i, m) for i, d, m in ranked if i not in excluded]
        return [_neighbour(i, d, dict(m)) for d, i, m in sorted(kept, key=lambda row: row[:2])[:count]]


@contextmanager
def _whole(place: Path | str) -> Iterator[None]:
    """Reading a pool, of which any part may be damaged.

    Raises:
        ModelError: It is.
    """
    try:
        yield
    except (ValueError, KeyError, TypeError, ChromaError) as error:
        fault = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"{place} is no whole demonstration pool ({fault}): build it again") from None


class _View(Protocol):
    """What a pool asks of a view."""

    def get(self, **wanted: Any) -> Any:
        """Records that fit: lists by `ids`, `metadatas`, `documents` and `embeddings`."""

    def query(self, **wanted: Any) -> Any:
        """The same of the nearest, a list for each query."""


class _Stored:
    """A view as Chroma keeps it in a folder."""

    def __init__(self, folder: Path, collection: chromadb.Collection) -> None:
        self._folder = folder
        self._collection = collection

    def get(self, **wanted: Any) -> chromadb.GetResult:
        with _whole(self._folder):
            return self._collection.get(**wanted)

    def query(self, **wanted: Any) -> chromadb.QueryResult:
        with _whole(self._folder):
            return self._collection.query(**wanted)


class _Matrix:
    """Vectors of one view in memory."""

    def __init__(self, found: Records) -> None:
        metadatas = found["metadatas"] or []
        order = sorted(range(len(found["ids"])), key=lambda index: found["ids"][index])
        self._ids = [found["ids"][index] for index in order]
        self._metadatas = [dict(metadatas[index]) for index in order]
        embeddings = found["embeddings"]
        assert embeddings is not None
        self._vectors: Vectors = np.asarray([embeddings[index] for index in order], dtype=np.float32)
        # Asking Chroma takes 3 ms, four times a case.
        self._by_fingerprint: dict[str, list[str]] = {}
        for id_, metadata in zip(self._ids, self._metadatas, strict=True):
            self._by_fingerprint.setdefault(str(metadata.get("fingerprint")), []).append(id_)

    def having(self, text: str) -> Sequence[str]:
        """Ids of the cases with this fingerprint."""
        return self._by_fingerprint.get(text, ())

    def nearest(
        self,
        vector: Vectors,
        count: int,
        intent: str | None,
        excluded: Collection[str],
        among: Collection[str] = (),
    ) -> list[Neighbour]:
        if not self._ids:
            return []
        # Equal texts differ in the last bit of a matrix product; rounded, they are ties again, and a
        # stable sort over rows in the order of ids breaks them by id.
        distances = np.round(1.0 - self._vectors @ vector, _DIGITS)
        ranked = np.argsort(distances, kind="stable")
        fitting = (
            index
            for index in ranked
            if self._ids[index] not in excluded
            and (not among or self._ids[index] in among)
            and (intent is None or self._metadatas[index].get("intent") == intent)
        )
        return [
            _neighbour(self._ids[index], float(distances[index]), self._metadatas[index])
            for index, _ in zip(fitting, range(count), strict=False)
        ]


async def build_pool(
    folder: Path,
    cases: Iterable[Case],
    embedder: Embedder,
    source: Source | None = None,
    reviewed: Collection[str] = (),
) -> int:
    """Build a pool of annotated cases; one that stands in the folder is replaced at the very end.

    Each case needs labels or an answer; its intent may be missing. Returns the number of cases.

    Args:
        folder: The pool's folder.
        cases: What to build it of.
        embedder: Makes their vectors.
        source: Who labelled all of them; None where each case says so itself.
        reviewed: Ids of cases whose gold comes from reviews of a run, which lists and traces then tell.

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


def _from_source(case: Case, source: Source | None) -> Case:
    if source is None:
        return case
    if source == "gold" and case.gold.label_source == "weak":
        raise ModelError(f"case {case.id!r} has weak labels by its key: a pool cannot call them gold")
    return replace(case, gold=replace(case.gold, label_source=source))


def _document(case: Case) -> bytes:
    """A case as it is stored. Gold needs no mark, and pools of older versions have none."""
    unmarked = case.gold.label_source == "gold"
    return _CASE.dump_json(case, exclude={"gold": {"label_source"}} if unmarked else None)


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
        "answer": [(case, answer_text(case, _primary(case.gold))) for case in cases if case.gold.answer],
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


def fingerprint(case: Case) -> str:
    """SHA-256 of question and narrative without differences of case and white space."""
    return hashlib.sha256(" ".join(evidence_text(case).lower().split()).encode()).hexdigest()


def _primary(gold: Gold) -> str | None:
    return gold.intent.primary if gold.intent else None


def _metadata(case: Case, reviewed: bool) -> dict[str, str]:
    intent = case.gold.intent
    return {
        "intent": intent.primary if intent else "",
        "secondary_intent": (intent.secondary or "") if intent else "",
        "source": REVIEWED if reviewed else case.gold.label_source,
        "fingerprint": fingerprint(case),
    }


def _neighbour(case_id: str, distance: float, metadata: dict[str, Any]) -> Neighbour:
    return Neighbour(
        case_id=case_id,
        distance=round(distance, _DIGITS),
        intent=metadata.get("intent") or None,
        secondary_intent=metadata.get("secondary_intent") or None,
        source=str(metadata.get("source", "")),
    )


def push_pool(
    folder: Path, url: str, policies: Iterable[HeldPolicy], *, replace: bool = False
) -> tuple[PoolAddress, bool]:
    """Put a pool of a folder on a Chroma server.

    Args:
        folder: The pool's.
        url: Of the server, with or without the name of a collection.
        policies: Of its cases, which bind all that open it there.
        replace: Whether another pool of this name may be replaced.

    Returns:
        Where it is, and whether it has been put there; it may have been there already.

    Raises:
        ModelError: There is no pool in the folder, or the name is taken.
        CallError: The server does not answer, or refuses.
        PolicyError: No text may go to the server.
    """
    # Before the pool is read, which may be large.
    address = parse_pool_address(url)
    demand_host(address.url, f"demonstrations at {address}")
    if not (folder / MANIFEST).is_file():
        raise ModelError(f"no demonstration pool in {folder}: build one with `evigraph demos build`")
    with _whole(folder):
        metadata: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
        client = _client(folder / metadata.pop("store"))
        stored = {view: _Stored(folder, client.get_collection(view)) for view in get_args(View)}
    records: dict[str, Records] = {}
    for view, one in stored.items():
        found = one.get(include=["documents", "metadatas", "embeddings"])
        embeddings = found["embeddings"]
        assert embeddings is not None
        records[view] = {
            "ids": found["ids"],
            "documents": found["documents"],
            "metadatas": [dict(metadata) for metadata in found["metadatas"] or []],
            "embeddings": np.asarray(embeddings, dtype=np.float32).tolist(),
        }
    return push(url, records, metadata, policies, replace=replace)


def _joined(pages: Sequence[Records]) -> Records:
    names = ("ids", "metadatas", "embeddings")
    return {name: [one for page in pages for one in page[name]] for name in names}


def _client(folder: Path) -> ClientAPI:
    return chromadb.PersistentClient(path=str(folder), settings=Settings(anonymized_telemetry=False))
