"""BioASQ's two phases: documents and snippets, then answers in BioASQ's forms (Verma et al. 2025)."""

from __future__ import annotations

import operator
from typing import Annotated, Literal

from langgraph.graph import END, START
from langgraph.runtime import Runtime

from graph.answer_verification import AnswerVerifier, VerifiedState, after_answer, verified
from graph.document_resources import AnsweredQuestions, DocumentReranker, SearchedDocuments
from graph.system import Builder, System
from nodes.answer.aggregate_exact_answers import AGGREGATE_EXACT_ANSWERS
from nodes.answer.answer_exactly import ANSWER_EXACTLY
from nodes.answer.answer_ideally import ANSWER_IDEALLY, IdealSettings
from nodes.answer.exact_reply import ExactSettings, type_of
from nodes.core.context import Context
from nodes.core.recipe import Recipe
from nodes.core.state import CaseInput
from nodes.core.written_text import Attempt
from nodes.question.judge_answerability import JUDGE_ANSWERABILITY, StatedSettings, judges_answerability
from nodes.retrieval.adopt_snippets import ADOPT_SNIPPETS
from nodes.retrieval.combine_rankings import COMBINE_RANKINGS
from nodes.retrieval.document_records import (
    ChosenSnippet,
    ExactVote,
    FoundDocument,
    RankedDocument,
)
from nodes.retrieval.document_settings import DocumentSettings
from nodes.retrieval.reformulate_question import REFORMULATE_QUESTION
from nodes.retrieval.rerank_by_model import RERANK_BY_MODEL
from nodes.retrieval.rerank_documents import RERANK_DOCUMENTS
from nodes.retrieval.retrieve_documents import RETRIEVE_DOCUMENTS
from nodes.retrieval.select_snippets import SELECT_SNIPPETS
from nodes.verification.decline_answer import DECLINE_ANSWER
from nodes.verification.verify_answer import VERIFY_ANSWER, VerificationSettings


class BioasqRecipe(Recipe):
    """Recipe with the paper's values as defaults.

    Attributes:
        documents: Phase A: documents and snippets.
        exact: Phase B: answers in the form that a question's type asks for.
        ideal: The answer in words.
        answerability: Whether a question that its snippets do not answer ends without an answer.
        verification: Whether each sentence of the answer in words is verified against the snippets.
    """

    system: Literal["bioasq"] = "bioasq"
    documents: DocumentSettings = DocumentSettings()
    exact: ExactSettings = ExactSettings()
    ideal: IdealSettings = IdealSettings()
    answerability: StatedSettings = StatedSettings()
    verification: VerificationSettings = VerificationSettings()

    @property
    def answers(self) -> bool:
        return self.documents.answers


BioasqRuntime = Runtime[Context[BioasqRecipe]]


class BioasqState(VerifiedState, total=False):
    """From a search to exact answers and answers in words."""

    queries: list[str]
    """The question and its reformulations."""
    found_documents: list[FoundDocument]
    """Best first, with their texts: documents are public, and no case holds them."""
    cross_encoder_ranking: list[RankedDocument]
    """Best first; those of the retrieval where no cross-encoder is wanted."""
    llm_ranking: list[RankedDocument]
    """A language model's ranking; positions only."""
    document_ranking: list[RankedDocument]
    """The answer of phase A, best first."""
    snippets: list[ChosenSnippet]
    """Snippets for answers: retrieved ones, or the question's own."""
    exact_votes: list[ExactVote]
    exact_answer: str | list[list[str]]
    """Yes or no, or entries that are each a list of synonyms; missing for questions that have none."""
    rejected_answers: Annotated[list[Attempt], operator.add]


Ranked = Literal["rerank_documents", "rerank_by_model", "combine_rankings"]


async def begin(
    state: CaseInput, runtime: BioasqRuntime
) -> Literal["adopt_snippets", "reformulate_question", "retrieve_documents"]:
    """Phase B begins with the snippets that a question comes with, phase A with a search."""
    documents = runtime.context.settings.documents
    if not documents.finds:
        return "adopt_snippets"
    return "reformulate_question" if documents.reformulations else "retrieve_documents"


async def after_retrieval(state: BioasqState, runtime: BioasqRuntime) -> Ranked:
    """A cross-encoder only where the recipe names one, a language model only where it wants one."""
    if runtime.context.settings.documents.reranker is not None:
        return "rerank_documents"
    return await after_reranking(state, runtime)


async def after_reranking(
    state: BioasqState, runtime: BioasqRuntime
) -> Literal["rerank_by_model", "combine_rankings"]:
    """A language model reorders where the recipe wants it."""
    return "rerank_by_model" if runtime.context.settings.documents.llm_rerank else "combine_rankings"


Answering = Literal["answer_exactly", "answer_ideally"]


def answering(state: BioasqState, runtime: BioasqRuntime) -> Answering:
    """A summary has no exact answer; a missing type fails in the next node."""
    summary = type_of(runtime.context.cases[state["case_id"]]) == "summary"
    return "answer_ideally" if summary else "answer_exactly"


async def after_snippets(
    state: BioasqState, runtime: BioasqRuntime
) -> Literal["judge_answerability", Answering, "__end__"]:
    """Phase A ends with snippets; then the answers, if the snippets have them."""
    if not runtime.context.settings.documents.answers:
        return "__end__"
    asks = judges_answerability(runtime.context.settings)
    return "judge_answerability" if asks else answering(state, runtime)


async def after_judgement(state: BioasqState, runtime: BioasqRuntime) -> Literal["decline_answer", Answering]:
    """Snippets that do not answer the question end the case."""
    return "decline_answer" if state["answerable"] == "no" else answering(state, runtime)


async def after_verification(state: BioasqState) -> Literal["answer_ideally", "decline_answer", "__end__"]:
    """Write again what was sent back."""
    status = verified(state)
    if status == "sent_back":
        return "answer_ideally"
    return "decline_answer" if status == "not_stated" else "__end__"


def wire(builder: Builder) -> None:
    """Add the edges."""
    builder.add_conditional_edges(START, begin)
    builder.add_edge("reformulate_question", "retrieve_documents")
    builder.add_conditional_edges("retrieve_documents", after_retrieval)
    builder.add_conditional_edges("rerank_documents", after_reranking)
    builder.add_edge("rerank_by_model", "combine_rankings")
    builder.add_edge("combine_rankings", "select_snippets")
    for snippets in ("select_snippets", "adopt_snippets"):
        builder.add_conditional_edges(snippets, after_snippets)
    builder.add_conditional_edges("judge_answerability", after_judgement)
    builder.add_edge("answer_exactly", "aggregate_exact_answers")
    builder.add_edge("aggregate_exact_answers", "answer_ideally")
    builder.add_conditional_edges("answer_ideally", after_answer)
    builder.add_conditional_edges("verify_answer", after_verification)
    builder.add_edge("decline_answer", END)


SYSTEM = System(
    summary="BioASQ's two phases: documents and snippets, then answers (Verma et al. 2025)",
    recipe=BioasqRecipe,
    state=BioasqState,
    nodes=(
        REFORMULATE_QUESTION,
        RETRIEVE_DOCUMENTS,
        RERANK_DOCUMENTS,
        RERANK_BY_MODEL,
        COMBINE_RANKINGS,
        SELECT_SNIPPETS,
        ADOPT_SNIPPETS,
        JUDGE_ANSWERABILITY,
        ANSWER_EXACTLY,
        AGGREGATE_EXACT_ANSWERS,
        ANSWER_IDEALLY,
        VERIFY_ANSWER,
        DECLINE_ANSWER,
    ),
    wire=wire,
    resources=(SearchedDocuments(), DocumentReranker(), AnsweredQuestions(), AnswerVerifier()),
    score="biomedical",
    samples="bioasq/questions.json",
)
