"""Demonstrations by their distance."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ranking.encoding.vectors import Vectors

Records = Mapping[str, Any]
"""`ids`, and with them `documents`, `metadatas` and `embeddings`: as Chroma gives them."""

DIGITS = 6
"""Digits of distances: equal texts differ in the last bit of a matrix product; rounding restores ties."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A demonstration at its cosine distance (0 is the same direction, 2 the opposite one)."""

    case_id: str
    distance: float
    intent: str | None
    secondary_intent: str | None
    source: str

    @classmethod
    def of_record(cls, case_id: str, distance: float, metadata: Mapping[str, Any]) -> Neighbour:
        return cls(
            case_id=case_id,
            distance=round(distance, DIGITS),
            intent=metadata.get("intent") or None,
            secondary_intent=metadata.get("secondary_intent") or None,
            source=str(metadata.get("source", "")),
        )


class ExactView:
    """All vectors of one view in memory, compared with each."""

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

    def records(self) -> Iterable[tuple[str, Mapping[str, Any]]]:
        return zip(self._ids, self._metadatas, strict=True)

    def having(self, text: str) -> Sequence[str]:
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
        # Rows are in the order of ids, so a stable sort breaks ties by id.
        distances = np.round(1.0 - self._vectors @ vector, DIGITS)
        ranked = np.argsort(distances, kind="stable")
        fitting = (
            index
            for index in ranked
            if self._ids[index] not in excluded
            and (not among or self._ids[index] in among)
            and (intent is None or self._metadatas[index].get("intent") == intent)
        )
        return [
            Neighbour.of_record(self._ids[index], float(distances[index]), self._metadatas[index])
            for index, _ in zip(fitting, range(count), strict=False)
        ]
