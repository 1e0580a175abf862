"""The pool of demonstrations in Chroma: annotated cases, found again by meaning and by intent."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from cases.records import Case
from ranking.encoding.vectors import Vectors
from retrieval.embeddings import Embedder
from retrieval.pools.compared import View, fingerprint
from retrieval.pools.folder import CASE_OF_DOCUMENT, open_store, whole_pool
from retrieval.pools.neighbours import ExactView, Neighbour
from serving.journal.journal import text_hash
from serving.protocol.errors import ModelError

REMEMBERED_BYTES = 4 * 2**20
"""Cache size for vectors of cases: enough for the two windows of cases that are embedded ahead."""

REMEMBERED_IN_BATCHES = 48 * 2**20
"""Those of 30,000 texts by the packaged encoder. Where models answer in batches, a case asks for its own
again in every round, after all others have."""

_CASES_REMEMBERED = 512

_AHEAD = 32
"""Texts embedded at once ahead of time; those that are needed now must not wait for hundreds."""


class DemonstrationPool:
    """A pool that was built, opened for reading.

    All vectors are in memory, 1.5 kB each by the packaged encoder, and rankings are exact, by distance and
    then by id. Cases are read from Chroma when they are needed.
    """

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        """Open the pool of a folder.

        Raises:
            ModelError: There is none, or other weights made its vectors.
        """
        self.folder = folder
        self._embedder = embedder
        self._cases: OrderedDict[str, Case] = OrderedDict()
        self.metadata, self._stored = open_store(folder)
        self._demand_embedder()
        with whole_pool(folder):
            self._views = {
                view: ExactView(stored.get(include=["embeddings", "metadatas"]))
                for view, stored in self._stored.items()
            }
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
        """Digest of all cases in the pool, in the order of their ids."""
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
        """The nearest demonstrations, nearest first: of a primary intent, and among some ids, where given."""
        if count <= 0 or len(self) == 0:
            return []
        return self._views[view].nearest(await self._vector(text), count, intent, excluded, among)

    def twins(self, case: Case) -> frozenset[str]:
        """Ids in the pool that are this case: the same id, or the same texts under another id."""
        return frozenset({case.id, *self._same_texts(case)})

    def holds(self, case: Case) -> bool:
        """Whether the texts of a case are in the pool, under any id."""
        return bool(self._same_texts(case))

    def _same_texts(self, case: Case) -> list[str]:
        text = fingerprint(case)
        return [id_ for view in self._views.values() for id_ in view.having(text)]

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

    def case(self, case_id: str) -> Case:
        known = self._cases.get(case_id)
        if known is None:
            return self._load_case(case_id)
        self._cases.move_to_end(case_id)
        return known

    def neighbours(self) -> list[Neighbour]:
        """All demonstrations by id, at distance 0."""
        metadatas = {id_: metadata for view in self._views.values() for id_, metadata in view.records()}
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
        for stored in self._stored.values():
            with whole_pool(self.folder):
                found = stored.get(ids=[case_id], include=["documents"])["documents"]
                if not found:
                    continue
                self._cases[case_id] = CASE_OF_DOCUMENT.validate_json(found[0])
            if len(self._cases) > _CASES_REMEMBERED:
                self._cases.popitem(last=False)
            return self._cases[case_id]
        raise KeyError(case_id)
