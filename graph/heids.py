"""heiDS at ArchEHR-QA 2025: as many sentences as the scores say, then an answer with citations."""

from __future__ import annotations

import operator
from typing import Annotated, Literal

from langgraph.graph import END, START
from langgraph.runtime import Runtime

from graph.answer_verification import AnswerVerifier, VerifiedState, after_answer, verified
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
    AnswerEvidence,
    Attribution,
    Retrieved,
)
from nodes.core.state import CaseInput
from nodes.core.written_text import Attempt
from nodes.question.adopt_patient_question import ADOPT_PATIENT_QUESTION
from nodes.question.judge_answerability import JUDGE_ANSWERABILITY, StatedSettings, judges_answerability
from nodes.retrieval.retrieve_sentences import RETRIEVE_SENTENCES, RetrievalSettings
from nodes.verification.decline_answer import DECLINE_ANSWER
from nodes.verification.verify_answer import VERIFY_ANSWER, VerificationSettings, verifies


class HeidsRecipe(Recipe):
    """Recipe with heiDS's values as defaults.

    Attributes:
        stop_after: `evidence` retrieves and asks no model.
        retrieval: Which sentences of the note are found.
        citation: How sentences of an answer come to their citations.
        answer: Rules of the answer.
        answerability: Whether a case that its note does not answer ends without an answer.
        verification: Whether each sentence of the answer is verified against the note.
    """

    system: Literal["heids"] = "heids"
    stop_after: Literal["answer", "evidence"] = "answer"
    retrieval: RetrievalSettings = RetrievalSettings()
    citation: CitationSettings = CitationSettings()
    answer: AnswerRules = AnswerRules()
    answerability: StatedSettings = StatedSettings()
    verification: VerificationSettings = VerificationSettings()

    @property
    def answers(self) -> bool:
        return self.stop_after == "answer"


HeidsRuntime = Runtime[Context[HeidsRecipe]]


class HeidsState(VerifiedState, total=False):
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
    attributions: dict[str, list[Attribution]]
    """By answer sentence: note sentences that may be cited, the likeliest first."""


async def begin(
    state: CaseInput, runtime: HeidsRuntime
) -> Literal["adopt_patient_question", "retrieve_sentences"]:
    """A case without a clinician question is answered on the patient's own."""
    case = runtime.context.cases[state["case_id"]]
    return "retrieve_sentences" if case.question.strip() else "adopt_patient_question"


Generating = Literal["generate_cited_answer", "generate_uncited_answer"]


def generating(settings: HeidsRecipe) -> Generating:
    """The node that writes answers."""
    cites = settings.citation.method == "post_retrieval"
    return "generate_cited_answer" if cites else "generate_uncited_answer"


async def after_retrieval(
    state: HeidsState, runtime: HeidsRuntime
) -> Literal["judge_answerability", Generating, "__end__"]:
    """Stop here where the recipe wants retrieval alone; else the answer, if the note has one."""
    settings = runtime.context.settings
    if settings.stop_after == "evidence":
        return "__end__"
    return "judge_answerability" if judges_answerability(settings) else generating(settings)


async def after_judgement(state: HeidsState, runtime: HeidsRuntime) -> Literal["decline_answer", Generating]:
    """A note that does not answer the question ends the case."""
    return "decline_answer" if state["answerable"] == "no" else generating(runtime.context.settings)


async def after_validation(
    state: HeidsState, runtime: HeidsRuntime
) -> Literal["generate_cited_answer", "verify_answer", "__end__"]:
    """An answer that was sent back is written again; an accepted one is verified, by recipe."""
    if not state.get("answer"):
        return "generate_cited_answer"
    return "verify_answer" if verifies(runtime.context.settings) else "__end__"


async def after_check(state: HeidsState) -> Literal["generate_uncited_answer", "attribute_answer"]:
    """An answer that was sent back is written again; only an accepted one is attributed."""
    return "attribute_answer" if state.get("answer") else "generate_uncited_answer"


async def after_verification(
    state: HeidsState, runtime: HeidsRuntime
) -> Literal["decline_answer", Generating, "__end__"]:
    """Write again what was sent back."""
    status = verified(state)
    if status == "sent_back":
        return generating(runtime.context.settings)
    return "decline_answer" if status == "not_stated" else "__end__"


def wire(builder: Builder) -> None:
    """Add the edges."""
    builder.add_conditional_edges(START, begin)
    builder.add_edge("adopt_patient_question", "retrieve_sentences")
    builder.add_conditional_edges("retrieve_sentences", after_retrieval)
    builder.add_conditional_edges("judge_answerability", after_judgement)
    builder.add_edge("generate_cited_answer", "validate_citations")
    builder.add_conditional_edges("validate_citations", after_validation)
    builder.add_edge("generate_uncited_answer", "check_answer")
    builder.add_conditional_edges("check_answer", after_check)
    builder.add_conditional_edges("attribute_answer", after_answer)
    builder.add_conditional_edges("verify_answer", after_verification)
    builder.add_edge("decline_answer", END)


SYSTEM = System(
    summary="as many sentences as the scores say, then an answer with citations (heiDS, ArchEHR-QA 2025)",
    recipe=HeidsRecipe,
    state=HeidsState,
    nodes=(
        ADOPT_PATIENT_QUESTION,
        RETRIEVE_SENTENCES,
        JUDGE_ANSWERABILITY,
        GENERATE_CITED_ANSWER,
        VALIDATE_CITATIONS,
        GENERATE_UNCITED_ANSWER,
        CHECK_ANSWER,
        ATTRIBUTE_ANSWER,
        VERIFY_ANSWER,
        DECLINE_ANSWER,
    ),
    wire=wire,
    resources=(SentenceRetrieval(), AnswerVerifier()),
    score="archehr",
)
