"""The documents that are nearest to a question by their words (Vladika and Matthes 2024, section 3.3)."""

from __future__ import annotations

import asyncio
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.texts import plural
from nodes.core.context import Context
from nodes.core.facts import PLAIN
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, decision
from nodes.reading.settings import LiteratureSettings
from nodes.retrieval.document_records import FoundDocument
from nodes.retrieval.document_texts import CORPUS, FOUND_DOCUMENTS, NOTHING_FOUND, found_document

_DIGITS = 4


class SearchLiteratureInput(TypedDict):
    case_id: str
    patient_question: NotRequired[str]


class SearchLiteratureUpdate(TypedDict):
    """Documents are sorted best first."""

    found_documents: list[FoundDocument]
    decisions: list[Decision]


async def search_literature(
    state: SearchLiteratureInput, runtime: Runtime[Context]
) -> SearchLiteratureUpdate:
    """Search the corpus for the question, in a thread."""
    context = runtime.context
    literature = context.tool(CORPUS)
    question = state.get("patient_question", context.cases[state["case_id"]].question)
    wanted = context.section(LiteratureSettings).searched
    hits = await asyncio.to_thread(literature.search, question, wanted)
    found = [found_document(hit.document, hit.rank, hit.score, _DIGITS) for hit in hits]
    return {
        "found_documents": found,
        "decisions": decision(
            "search_literature",
            f"{len(found)} of {plural(len(literature), 'document')} share words with the question;"
            f" {wanted} wanted",
            {
                "documents": [
                    {name: one[name] for name in ("id", "year", "citations", "rank", "score")}
                    for one in found
                ],
                "corpus": literature.identity,
                "asked_for": wanted,
            },
            flags=[] if found else ["nothing_found"],
        ),
    }


SEARCH_LITERATURE = NodeSpec(
    run=search_literature,
    sections=(LiteratureSettings,),
    tools=(CORPUS,),
    facts={"documents": FOUND_DOCUMENTS, "corpus": PLAIN, "asked_for": PLAIN},
    flags=NOTHING_FOUND,
)
