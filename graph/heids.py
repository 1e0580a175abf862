"""heiDS at ArchEHR-QA 2025: as many sentences as the scores say, then an answer with citations."""

from __future__ import annotations

import operator
from typing import Annotated, Literal

from langgraph.graph import END, START
from langgraph.runtime import Runtime

from graph.note_resources import SentenceRetrieval
from graph.system import Builder, System
from nodes.answer.answer_rules import AnswerRules
from nodes.answer.check_answer import CHECK_ANSWER
from nodes.citing.attribute_answer import ATTRIBUTE_ANSWER
from nodes.citing.citations import CitationSettings
from nodes.citing.generate_cited_answer import GENERATE_CITED_ANSWER
from nodes.citing.generate_uncited_answer import GENERATE_UNCITED_ANSWER
from nodes.citing.validate_citations import VALIDATE_CITATIONS
from nodes.core.context import Context
from nodes.core.recipe import Recipe
from nodes.core.records import (
    AlignedAnswer,
    AnswerEvidence,
    AnswerLine,
    Attribution,
    Retrieved,
)
from nodes.core.state import CaseInput, CaseState
from nodes.core.written_text import Attempt
from nodes.question.adopt_patient_question import ADOPT_PATIENT_QUESTION
from nodes.retrieval.retrieve_sentences import RETRIEVE_SENTENCES, RetrievalSettings


class HeidsRecipe(Recipe):
    """Values of heiDS, where a recipe says nothing else.

    Attributes:
        stop_after: `evidence` retrieves and asks no model.
        retrieval: Which sentences of the note are found.
        citation: How sentences of an answer come to their citations.
        answer: Rules of the answer.
    """

    system: Literal["heids"] = "heids"
    stop_after: Literal["answer", "evidence"] = "answer"
    retrieval: RetrievalSettings = RetrievalSettings()
    citation: CitationSettings = CitationSettings()
    answer: AnswerRules = AnswerRules()

    @property
    def answers(self) -> bool:
        return self.stop_after == "answer"


HeidsRuntime = Runtime[Context[HeidsRecipe]]


class HeidsState(CaseState, total=False):
    """From retrieved sentences to an answer with citations."""

    patient_question: str
    """Stands in for a missing clinician question: the patient's own, or the interpreted one."""
    retrieved: list[Retrieved]
    """Sentences that were found for a query, the best first."""
    evidence: dict[AnswerEvidence, list[str]]
    """Sentence ids of each evidence setting."""
    answer_evidence: list[str]
    """Sentence ids that the answer is built on."""
    draft_answer: str
    rejected_answers: Annotated[list[Attempt], operator.add]
    answer: str
    """Set once an answer is accepted."""
    answer_sentences: list[AnswerLine]
    """Of the aligned answer."""
    alignment: dict[str, list[str]]
    """Ids of the note sentences that support each answer sentence, by its id."""
    aligned_answer: AlignedAnswer
    attributions: dict[str, list[Attribution]]
    """By answer sentence: note sentences that may be cited, the likeliest first."""


async def begin(
    state: CaseInput, runtime: HeidsRuntime
) -> Literal["adopt_patient_question", "retrieve_sentences"]:
    """A case without a clinician question is answered on the patient's own."""
    case = runtime.context.cases[state["case_id"]]
    return "retrieve_sentences" if case.question.strip() else "adopt_patient_question"


async def after_retrieval(
    state: HeidsState, runtime: HeidsRuntime
) -> Literal["generate_cited_answer", "generate_uncited_answer", "__end__"]:
    """Stop here where the recipe wants retrieval alone; else the recipe says when citations are made."""
    settings = runtime.context.settings
    if settings.stop_after == "evidence":
        return "__end__"
    cites = settings.citation.method == "post_retrieval"
    return "generate_cited_answer" if cites else "generate_uncited_answer"


async def after_validation(state: HeidsState) -> Literal["generate_cited_answer", "__end__"]:
    """An answer that was sent back is written again."""
    return "__end__" if "answer" in state else "generate_cited_answer"


async def after_check(state: HeidsState) -> Literal["generate_uncited_answer", "attribute_answer"]:
    """An answer that was sent back is written again; only an accepted one is attributed."""
    return "attribute_answer" if "answer" in state else "generate_uncited_answer"


def wire(builder: Builder) -> None:
    """Add the edges."""
    builder.add_conditional_edges(START, begin)
    builder.add_edge("adopt_patient_question", "retrieve_sentences")
    builder.add_conditional_edges("retrieve_sentences", after_retrieval)
    builder.add_edge("generate_cited_answer", "validate_citations")
    builder.add_conditional_edges("validate_citations", after_validation)
    builder.add_edge("generate_uncited_answer", "check_answer")
    builder.add_conditional_edges("check_answer", after_check)
    builder.add_edge("attribute_answer", END)


SYSTEM = System(
    summary="as many sentences as the scores say, then an answer with citations (heiDS, ArchEHR-QA 2025)",
    recipe=HeidsRecipe,
    state=HeidsState,
    nodes=(
        ADOPT_PATIENT_QUESTION,
        RETRIEVE_SENTENCES,
        GENERATE_CITED_ANSWER,
        VALIDATE_CITATIONS,
        GENERATE_UNCITED_ANSWER,
        CHECK_ANSWER,
        ATTRIBUTE_ANSWER,
    ),
    wire=wire,
    resources=(SentenceRetrieval(),),
    score="archehr",
)
