"""Yes, no or unknown from dated literature, by a vote over passages (Vladika and Matthes 2024)."""

from __future__ import annotations

from typing import Literal

from langgraph.graph import END, START
from langgraph.runtime import Runtime

from cases.records import Verdict
from graph.document_resources import PassageReader, SearchedDocuments
from graph.system import Builder, System
from nodes.core.context import Context
from nodes.core.recipe import Recipe
from nodes.core.state import CaseInput, CaseState
from nodes.question.adopt_patient_question import ADOPT_PATIENT_QUESTION
from nodes.reading.aggregate_verdict import AGGREGATE_VERDICT
from nodes.reading.explain_verdict import EXPLAIN_VERDICT
from nodes.reading.filter_documents import FILTER_DOCUMENTS
from nodes.reading.read_passages import READ_PASSAGES
from nodes.reading.search_literature import SEARCH_LITERATURE
from nodes.reading.select_passages import SELECT_PASSAGES
from nodes.reading.settings import LiteratureSettings, ReadingSettings, VerdictSettings
from nodes.retrieval.document_records import (
    Disagreement,
    EvidencePassage,
    FoundDocument,
    Passage,
    PassageReading,
    ReadingCounts,
)


class TimeawareRecipe(Recipe):
    """Recipe with the paper's values as defaults.

    Attributes:
        literature: Which documents are found, and which of them may be evidence.
        reading: Passages to read, and their reader.
        verdict: How readings become an answer.
    """

    system: Literal["timeaware"] = "timeaware"
    literature: LiteratureSettings = LiteratureSettings()
    reading: ReadingSettings = ReadingSettings()
    verdict: VerdictSettings = VerdictSettings()


TimeawareRuntime = Runtime[Context[TimeawareRecipe]]


class TimeawareState(CaseState, total=False):
    """From found documents to a verdict; documents are public, so their texts travel too."""

    patient_question: str
    """Stands in for a missing clinician question: the patient's own, or the interpreted one."""
    found_documents: list[FoundDocument]
    """Best first, with their texts: documents are public, and no case holds them."""
    kept_documents: list[FoundDocument]
    """Those that may be evidence."""
    passages: list[Passage]
    """In the order in which they are read and counted."""
    readings: list[PassageReading]
    """Passages that could not be read are missing."""
    verdict: Verdict
    reading_counts: ReadingCounts
    evidence_passages: list[EvidencePassage]
    """Passages with their documents and readings."""
    disagreement: Disagreement
    explanation: str
    """Explanation of the verdict; cites evidence passages by their ids in square brackets."""


async def begin(
    state: CaseInput, runtime: TimeawareRuntime
) -> Literal["search_literature", "adopt_patient_question"]:
    """A case without a question is asked for its patient's own."""
    asked = runtime.context.cases[state["case_id"]].question.strip()
    return "search_literature" if asked else "adopt_patient_question"


async def after_filters(state: TimeawareState) -> Literal["select_passages", "aggregate_verdict"]:
    """Without a document there is nothing to read, and the rule of the vote says what that means."""
    return "select_passages" if state["kept_documents"] else "aggregate_verdict"


async def after_selection(state: TimeawareState) -> Literal["read_passages", "aggregate_verdict"]:
    """As without a document."""
    return "read_passages" if state["passages"] else "aggregate_verdict"


async def after_verdict(
    state: TimeawareState, runtime: TimeawareRuntime
) -> Literal["explain_verdict", "__end__"]:
    """An explanation only where the recipe wants one and there is evidence to explain it from."""
    wanted = runtime.context.settings.verdict.explain
    return "explain_verdict" if wanted and state["evidence_passages"] else "__end__"


def wire(builder: Builder) -> None:
    """Add the edges."""
    builder.add_conditional_edges(START, begin)
    builder.add_edge("adopt_patient_question", "search_literature")
    builder.add_edge("search_literature", "filter_documents")
    builder.add_conditional_edges("filter_documents", after_filters)
    builder.add_conditional_edges("select_passages", after_selection)
    builder.add_edge("read_passages", "aggregate_verdict")
    builder.add_conditional_edges("aggregate_verdict", after_verdict)
    builder.add_edge("explain_verdict", END)


SYSTEM = System(
    summary="yes, no or unknown by a vote over dated publications (Vladika and Matthes 2024)",
    recipe=TimeawareRecipe,
    state=TimeawareState,
    nodes=(
        ADOPT_PATIENT_QUESTION,
        SEARCH_LITERATURE,
        FILTER_DOCUMENTS,
        SELECT_PASSAGES,
        READ_PASSAGES,
        AGGREGATE_VERDICT,
        EXPLAIN_VERDICT,
    ),
    wire=wire,
    resources=(SearchedDocuments(), PassageReader()),
    score="verdict",
    samples="health/questions.jsonl",
)
