"""Passages of documents to read: whole texts, or the sentences nearest to the question."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple, NotRequired, TypedDict

import numpy as np
from langgraph.runtime import Runtime
from numpy.typing import NDArray

from cases.texts import plural
from nodes.core.context import VECTORS, Context
from nodes.core.facts import CUT_SENTENCES, plain
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, decision
from nodes.reading.settings import ReadingSettings, TopjOrder
from nodes.retrieval.document_records import FoundDocument, Passage
from ranking.encoding.vectors import TextVectors

SENTENCES_OF_A_DOCUMENT = 3
"""Number of sentences for `top3`, as in the released code."""

MOST_SIMILAR = 20
"""Sentences that the released code puts into the order of the documents."""

_DIGITS = 4

Similarities = NDArray[np.float64]
"""Similarity of each sentence to the question, shape (sentences,)."""


class DocumentSentence(NamedTuple):
    """A sentence of a document; `position` counts from 0."""

    document: str
    position: int
    text: str


def split_documents(documents: Iterable[FoundDocument], *, lowercase: bool = False) -> list[DocumentSentence]:
    """All sentences, in the order of the documents."""
    import sentencex

    found = []
    for document in documents:
        texts = [text.strip() for text in sentencex.segment("en", document["text"])]
        for position, text in enumerate(text for text in texts if text):
            found.append(DocumentSentence(document["id"], position, text.lower() if lowercase else text))
    return found


def whole_documents(documents: Sequence[FoundDocument], *, lowercase: bool = False) -> list[Passage]:
    """Each abstract as one passage."""
    return [
        Passage(
            id=str(number),
            document=document["id"],
            sentences=None,
            text=document["text"].lower() if lowercase else document["text"],
            similarity=None,
        )
        for number, document in enumerate(documents, 1)
    ]


def best_of_each(sentences: Sequence[DocumentSentence], similarities: Similarities) -> list[Passage]:
    """The three most similar sentences of each document, in their own order, as one passage."""
    by_document: dict[str, list[int]] = {}
    for place, sentence in enumerate(sentences):
        by_document.setdefault(sentence.document, []).append(place)
    chosen = [
        sorted(_most_similar(places, similarities)[:SENTENCES_OF_A_DOCUMENT])
        for places in by_document.values()
    ]
    return [_passage(number, places, sentences, similarities) for number, places in enumerate(chosen, 1)]


def best_of_all(
    sentences: Sequence[DocumentSentence], similarities: Similarities, j: int, order: TopjOrder
) -> list[Passage]:
    """`j` sentences of all documents together, each a passage.

    Args:
        sentences: In the order of the documents, best document first.
        similarities: One for each.
        j: How many.
        order: `paper` takes the most similar ones, most similar first; `released` sorts the 20 most similar
            back into the order of the documents and takes the first, so that few are the earliest sentences
            of the best documents.
    """
    ranked = _most_similar(range(len(sentences)), similarities)
    if order == "released":
        ranked = sorted(ranked[:MOST_SIMILAR])
    return [_passage(number, [place], sentences, similarities) for number, place in enumerate(ranked[:j], 1)]


def _most_similar(places: Iterable[int], similarities: Similarities) -> list[int]:
    """Ties stay in the order of the documents."""
    return sorted(places, key=lambda place: -similarities[place])


def _passage(
    number: int, places: Sequence[int], sentences: Sequence[DocumentSentence], similarities: Similarities
) -> Passage:
    return Passage(
        id=str(number),
        document=sentences[places[0]].document,
        sentences=[sentences[place].position for place in places],
        text=" ".join(sentences[place].text for place in places),
        similarity=round(float(max(similarities[place] for place in places)), _DIGITS),
    )


class SelectPassagesInput(TypedDict):
    case_id: str
    patient_question: NotRequired[str]
    kept_documents: list[FoundDocument]


class SelectPassagesUpdate(TypedDict):
    """Passages are in the order of reading and counting."""

    passages: list[Passage]
    decisions: list[Decision]


async def select_passages(state: SelectPassagesInput, runtime: Runtime[Context]) -> SelectPassagesUpdate:
    """Take the passages that the recipe's `doc_mode` names."""
    context = runtime.context
    settings = context.section(ReadingSettings)
    documents = state["kept_documents"]
    sentences: list[DocumentSentence] = []
    cut = 0
    if settings.compares:
        vectors = context.tool(VECTORS)
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
        made = plural(len(passages), "passage")
        return f"{made}, of each abstract the three sentences nearest to the question"
    order = "most similar first" if settings.topj_order == "paper" else "in the order of the documents"
    searched = f"{plural(len(sentences), 'sentence')} from {plural(len(documents), 'document')}"
    return f"{len(passages)} of {searched}, {order}"


SELECT_PASSAGES = NodeSpec(
    run=select_passages,
    sections=(ReadingSettings,),
    tools=(VECTORS,),
    facts=plain("passages", "doc_mode", "topj_order", "pool", "compared_in_part"),
    flags=CUT_SENTENCES,
)
