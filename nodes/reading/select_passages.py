"""What is read of the documents: all of each, or the sentences nearest to the question."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NotRequired, TypedDict

import numpy as np
from langgraph.runtime import Runtime

from nodes.core.context import Context
from nodes.core.records import Decision, decision
from nodes.reading.literature_records import FoundDocument, Passage
from nodes.reading.literature_settings import ReadingSettings
from nodes.reading.passages import (
    DocumentSentence,
    Similarities,
    best_of_all,
    best_of_each,
    split_documents,
    whole_documents,
)
from ranking.vectors import TextVectors


class SelectPassagesInput(TypedDict):
    """What the node reads."""

    case_id: str
    patient_question: NotRequired[str]
    kept_documents: list[FoundDocument]


class SelectPassagesUpdate(TypedDict):
    """What the node owns; passages in the order in which they are read and counted."""

    passages: list[Passage]
    decisions: list[Decision]


async def select_passages(state: SelectPassagesInput, runtime: Runtime[Context]) -> SelectPassagesUpdate:
    """Take the passages that the recipe's `doc_mode` names."""
    context = runtime.context
    settings = context.settings.reading
    documents = state["kept_documents"]
    sentences: list[DocumentSentence] = []
    cut = 0
    if settings.compares:
        vectors = context.vectors
        assert vectors is not None, "a recipe that compares sentences is given vectors"
        question = state.get("patient_question", context.cases[state["case_id"]].question)
        sentences = split_documents(documents, lowercase=settings.lowercase)
        similarities, cut = await asyncio.to_thread(_compare, vectors, question, sentences)
        passages = _chosen(settings, sentences, similarities)
    else:
        passages = whole_documents(documents, lowercase=settings.lowercase)
    return {
        "passages": passages,
        "decisions": decision(
            "select_passages",
            _because(settings, passages, documents, sentences),
            {
                "passages": [
                    {name: one[name] for name in ("id", "document", "sentences", "similarity")}
                    for one in passages
                ],
                "doc_mode": settings.doc_mode,
                "topj_order": settings.topj_order if settings.doc_mode == "top_j" else None,
                "pool": len(sentences),
                "compared_in_part": cut,
            },
            flags=["cut_sentences"] if cut else [],
        ),
    }


def _compare(
    vectors: TextVectors, question: str, sentences: Sequence[DocumentSentence]
) -> tuple[Similarities, int]:
    """Cosines with the question, and how many sentences were cut for them."""
    embedded = vectors.embed([question, *(sentence.text for sentence in sentences)])
    cosines: Similarities = (embedded.vectors[1:] @ embedded.vectors[0]).astype(np.float64)
    return cosines, int(embedded.cut[1:].sum())


def _chosen(
    settings: ReadingSettings, sentences: Sequence[DocumentSentence], similarities: Similarities
) -> list[Passage]:
    if settings.doc_mode == "top3":
        return best_of_each(sentences, similarities)
    return best_of_all(sentences, similarities, settings.j, settings.topj_order)


def _because(
    settings: ReadingSettings,
    passages: Sequence[Passage],
    documents: Sequence[FoundDocument],
    sentences: Sequence[DocumentSentence],
) -> str:
    if settings.doc_mode == "full":
        return f"{len(passages)} abstracts, each read as a whole"
    if settings.doc_mode == "top3":
        return f"{len(passages)} passages, of each abstract the three sentences nearest to the question"
    order = "most similar first" if settings.topj_order == "paper" else "in the order of the documents"
    return f"{len(passages)} of {len(sentences)} sentences from {len(documents)} documents, {order}"
