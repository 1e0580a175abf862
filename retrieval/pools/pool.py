"""The pool of demonstrations in Chroma: annotated cases, found again by meaning and by intent."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, get_args

from cases.records import Case
from retrieval.embeddings import Embedder, Vectors
from retrieval.pools.compared import View, fingerprint
from retrieval.pools.folder import CASE_OF_DOCUMENT, open_store, whole_pool
from retrieval.pools.neighbours import DIGITS, ExactView, Neighbour, Records
from serving.errors import ModelError
from serving.journal import text_hash

EXACT_UP_TO = 10_000
"""Largest pool that is ranked exactly. Below it an approximate index misses neighbours for no gain."""

REMEMBERED_BYTES = 4 * 2**20
"""Of vectors of cases: enough for the two windows of cases that are embedded ahead."""

REMEMBERED_IN_BATCHES = 48 * 2**20
"""Those of 30,000 texts by the packaged encoder. Where models answer in batches, a case asks for its own
again in every round, after all others have."""

_CASES_REMEMBERED = 512

_AHEAD = 32
"""Texts embedded at once ahead of time; those that are needed now must not wait for hundreds."""


class DemonstrationPool:
    """A pool that was built, opened for reading.

    Rankings are exact, by distance and then by id, up to `EXACT_UP_TO` demonstrations; beyond it Chroma's
    index answers.
    """

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        """Open the pool of a folder.

        Raises:
            ModelError: There is none, or other weights made its vectors.
        """
        self.folder = folder
        self._embedder = embedder
        self._cases: OrderedDict[str, Case] = OrderedDict()
        self._exact: dict[str, ExactView | None] = dict.fromkeys(get_args(View))
        self.metadata, self._views = open_store(folder)
        self._demand_embedder()
        if len(self) <= EXACT_UP_TO:
            for view, one in self._views.items():
                self._exact[view] = ExactView(one.get(include=["embeddings", "metadatas"]))
        self._vectors: OrderedDict[str, Vectors] = OrderedDict()
        self.remembered_bytes = REMEMBERED_BYTES

    def _demand_embedder(self) -> None:
        made_by = self.metadata.get("embedder")
        if made_by != self._embedder.identity:
            raise ModelError(
                f"the pool in {self.folder} was embedded by {made_by}, this recipe uses"
                f" {self._embedder.identity}: build the pool again or change `embedding`"
            )

    @property
    def record(self) -> dict[str, Any]:
        """What a run records of it."""
        return {
            "folder": str(self.folder.resolve()),
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
        if not among:
            return self._approximate(view, vector, count, intent, excluded)
        # A filtered index misses neighbours; a list is short enough to rank.
        found = self._views[view].get(ids=sorted(among), include=["embeddings", "metadatas", "documents"])
        self._remember_cases(found)
        return ExactView(found).nearest(vector, count, intent, excluded)

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
        where: Any = {"fingerprint": text}
        found: list[str] = self._views[view].get(where=where, include=[])["ids"]
        return found

    def case(self, case_id: str) -> Case:
        """A demonstration with its labels and answer."""
        known = self._cases.get(case_id)
        if known is None:
            return self._load_case(case_id)
        self._cases.move_to_end(case_id)
        return known

    def neighbours(self) -> list[Neighbour]:
        """All demonstrations by id, at distance 0."""
        metadatas: dict[str, dict[str, Any]] = {}
        for view in self._views.values():
            found = view.get(include=["metadatas"])
            pairs = zip(found["ids"], found["metadatas"] or [], strict=True)
            metadatas |= {case_id: dict(metadata) for case_id, metadata in pairs}
        return [Neighbour.of_record(case_id, 0.0, metadatas[case_id]) for case_id in sorted(metadatas)]

    async def _vector(self, text: str) -> Vectors:
        known = self._vectors.get(text_hash(text))
        if known is None:
            (known,) = await self._embedder.aembed([text])
            self._remember(text, known)
        return known

    def _remember(self, text: str, vector: Vectors) -> None:
        self._vectors[text_hash(text)] = vector
        if len(self._vectors) * vector.nbytes > self.remembered_bytes:
            self._vectors.popitem(last=False)

    def _load_case(self, case_id: str) -> Case:
        for view in self._views.values():
            found = view.get(ids=[case_id], include=["documents"])
            if found["documents"]:
                self._remember_cases(found)
                return self._cases[case_id]
        raise KeyError(case_id)

    def _remember_cases(self, found: Records) -> None:
        with whole_pool(self.folder):
            for id_, document in zip(found["ids"], found["documents"], strict=True):
                self._cases[id_] = CASE_OF_DOCUMENT.validate_json(document)
                self._cases.move_to_end(id_)
        while len(self._cases) > _CASES_REMEMBERED:
            self._cases.popitem(last=False)

    def _approximate(
        self, view: View, vector: Vectors, count: int, intent: str | None, excluded: Collection[str]
    ) -> list[Neighbour]:
        found = self._views[view].query(
            query_embeddings=[vector.tolist()],
            n_results=count + len(excluded),
            where={"intent": intent} if intent else None,
            include=["metadatas", "distances"],
        )
        assert found["distances"] is not None and found["metadatas"] is not None
        ranked = zip(found["ids"][0], found["distances"][0], found["metadatas"][0], strict=True)
        kept = [(round(float(d), DIGITS), i, m) for i, d, m in ranked if i not in excluded]
        return [Neighbour.of_record(i, d, m) for d, i, m in sorted(kept, key=lambda row: row[:2])[:count]]
