"""The sentences of the answer's documents that say most on the question (Verma et al. 2025, section 3.2).

The paper does not say how it takes snippets from documents. Here the ranker that put the documents in order
puts their sentences in order too: it was made to hold a question against a text, and a hundred sentences cost
it less than one document in ten of the search. Without one, BM25 does: it needs no weights.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import NotRequired, TypedDict

import numpy as np
from langgraph.runtime import Runtime

from cases.texts import plural
from nodes.core.context import Context
from nodes.core.facts import CUT_SENTENCES, plain
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, decision, raised
from nodes.core.scores import demand_finite
from nodes.retrieval.adopt_snippets import NO_SNIPPETS, SNIPPET_COUNT, without_text
from nodes.retrieval.document_records import ChosenSnippet, FoundDocument, RankedDocument
from nodes.retrieval.document_settings import DocumentSettings
from nodes.retrieval.document_texts import DOCUMENT_RERANKER, SCORE_DIGITS
from ranking.rankers.bm25 import Bm25Ranker


def placed_sentences(documents: Iterable[FoundDocument]) -> list[ChosenSnippet]:
    """Titles and sentences of abstracts, in the order of the documents; blanks at their ends are left out."""
    return [
        sentence
        for document in documents
        for section, text in (("title", document["title"]), ("abstract", document["text"]))
        for sentence in _split(document["id"], section, text)
    ]


def _split(document: str, section: str, text: str) -> Iterator[ChosenSnippet]:
    if section == "title":
        yield from _stripped(document, section, text, 0, len(text))
        return
    from sentencex import get_sentence_boundaries

    for boundary in get_sentence_boundaries("en", text):
        yield from _stripped(document, section, text, boundary["start_index"], boundary["end_index"])


def _stripped(document: str, section: str, text: str, begin: int, end: int) -> Iterator[ChosenSnippet]:
    piece = text[begin:end]
    first = begin + len(piece) - len(piece.lstrip())
    last = end - len(piece) + len(piece.rstrip())
    if first < last:
        yield ChosenSnippet(document=document, section=section, begin=first, end=last, text=text[first:last])


class SelectSnippetsInput(TypedDict):
    case_id: str
    patient_question: NotRequired[str]
    found_documents: list[FoundDocument]
    document_ranking: list[RankedDocument]


class SelectSnippetsUpdate(TypedDict):
    """Snippets are sorted best first."""

    snippets: list[ChosenSnippet]
    decisions: list[Decision]


async def select_snippets(state: SelectSnippetsInput, runtime: Runtime[Context]) -> SelectSnippetsUpdate:
    """Score titles and sentences for the question, in a thread; ties by the order of the documents.

    Raises:
        NodeFailure: The ranker returned NaN or infinity.
    """
    context = runtime.context
    wanted = context.section(DocumentSettings).snippets
    by_id = {one["id"]: one for one in state["found_documents"]}
    documents = [by_id[one["id"]] for one in state["document_ranking"]]
    sentences = placed_sentences(documents)
    question = state.get("patient_question", context.cases[state["case_id"]].question)
    ranker = context.find(DOCUMENT_RERANKER) or Bm25Ranker()
    result = await asyncio.to_thread(ranker.rank, question, [one["text"] for one in sentences])
    demand_finite(result.scores, f"ranker {ranker.identity}")
    order = np.argsort(-result.scores, kind="stable")[:wanted].tolist()
    chosen = [sentences[place] for place in order]
    return {
        "snippets": chosen,
        "decisions": decision(
            "select_snippets",
            f"the best {len(chosen)} of {plural(len(sentences), 'sentence')} and titles of"
            f" {plural(len(documents), 'document')},"
            f" by {ranker.identity}",
            {
                "snippets": [
                    {
                        "document": one["document"],
                        "section": one["section"],
                        "begin": one["begin"],
                        "end": one["end"],
                        "score": round(float(result.scores[place]), SCORE_DIGITS),
                    }
                    for place, one in zip(order, chosen, strict=True)
                ],
                "pool": len(sentences),
                "ranker": ranker.identity,
                "cut_sentences": len(result.cut_sentences),
            },
            flags=raised(cut_sentences=result.cut_sentences, no_snippets=not chosen),
        ),
    }


SELECT_SNIPPETS = NodeSpec(
    run=select_snippets,
    sections=(DocumentSettings,),
    tools=(DOCUMENT_RERANKER,),
    results={"snippets": without_text},
    columns={"snippets": SNIPPET_COUNT},
    facts=plain("snippets", "pool", "ranker", "cut_sentences"),
    flags={**CUT_SENTENCES, **NO_SNIPPETS},
    is_off=lambda recipe: not recipe.section(DocumentSettings).finds,
)
