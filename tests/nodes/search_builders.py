"""Contexts that search invented documents by words, by chosen neighbours, or by both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cases.documents import Document
from cases.records import Case
from nodes.core.context import Context
from nodes.retrieval.document_records import RankedDocument
from nodes.retrieval.document_texts import CORPUS, DOCUMENT_RERANKER, INDEX
from ranking.cutoffs import Cutoff, TopK
from ranking.rankers.ranker import Ranked, Ranker
from retrieval.protocols import Hit
from serving.protocol.errors import CallError
from tests.nodes.builders import Answering, Bench, never, script
from tests.nodes.literature_builders import InMemory, question


@dataclass(frozen=True)
class Neighbours:
    """An index in which every query has the documents in their order as neighbours."""

    documents: Sequence[Document]
    fails: bool = False
    identity: str = "neighbours@1"

    def __len__(self) -> int:
        return len(self.documents)

    async def asearch(self, query: str, k: int) -> list[Hit]:
        if self.fails:
            raise CallError("connection", "the store does not answer")
        nearest = self.documents[:k]
        return [Hit(rank, 1.0 - rank / 100, one) for rank, one in enumerate(nearest, 1)]


@dataclass(frozen=True)
class ChosenScores:
    """Gives a text the score of the first chosen word that it holds, and 0 without one."""

    words: Mapping[str, float]
    cut: tuple[int, ...] = ()
    identity: str = "chosen@1"
    cutoff: Cutoff = field(default_factory=lambda: TopK(k=3))

    def rank(self, query: str, sentences: Sequence[str]) -> Ranked:
        scores = [
            next((score for word, score in self.words.items() if word in text), 0) for text in sentences
        ]
        return Ranked(np.array(scores, dtype=np.float32), self.cut)


def search_context(
    bench: Bench,
    *documents: Document,
    neighbours: Sequence[Document] = (),
    index_fails: bool = False,
    case: Case | None = None,
    label: Answering = never,
    reranker: Ranker | None = None,
    context_length: int | None = None,
    cross_encoder: str | None = None,
    **settings: Any,
) -> Context:
    """A context with a corpus of `documents`, and an index in the order of `neighbours`."""
    return bench.context(
        case or question(),
        system="bioasq",
        replies=script(label=label),
        context_length=context_length,
        tools={
            CORPUS: InMemory(documents),
            INDEX: Neighbours(neighbours, fails=index_fails),
            DOCUMENT_RERANKER: reranker,
        },
        documents={**settings, "reranker": cross_encoder},
    )


def ranking(*ids: str, scores: Sequence[float] | None = None) -> list[RankedDocument]:
    values = scores or [float(-rank) for rank in range(len(ids))]
    return [
        RankedDocument(id=id_, rank=rank, score=score)
        for rank, (id_, score) in enumerate(zip(ids, values, strict=True), 1)
    ]


def order(*numbers: object) -> str:
    return json.dumps({"ranking": list(numbers)})


def ids(ranked: Sequence[Mapping[str, Any]]) -> list[str]:
    return [one["id"] for one in ranked]
