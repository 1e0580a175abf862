"""Where a question goes next in BioASQ's two phases. Pure functions."""

from __future__ import annotations

from typing import Literal

from langgraph.runtime import Runtime

from graph.state import CaseInput, State
from nodes.core.context import Context
from nodes.question.question_type import type_of

Ranked = Literal["rerank_documents", "rerank_by_model", "combine_rankings"]


def begin(
    state: CaseInput, runtime: Runtime[Context]
) -> Literal["adopt_snippets", "reformulate_question", "retrieve_documents"]:
    """Phase B begins with the snippets that a question comes with, phase A with a search."""
    documents = runtime.context.settings.documents
    if not documents.finds:
        return "adopt_snippets"
    return "reformulate_question" if documents.reformulations else "retrieve_documents"


def after_retrieval(state: State, runtime: Runtime[Context]) -> Ranked:
    """A cross-encoder only where the recipe names one, a language model only where it wants one."""
    documents = runtime.context.settings.documents
    return "rerank_documents" if documents.reranker is not None else after_reranking(state, runtime)


def after_reranking(
    state: State, runtime: Runtime[Context]
) -> Literal["rerank_by_model", "combine_rankings"]:
    """A language model reorders where the recipe wants it."""
    return "rerank_by_model" if runtime.context.settings.documents.llm_rerank else "combine_rankings"


def after_snippets(
    state: State, runtime: Runtime[Context]
) -> Literal["answer_exactly", "answer_ideally", "__end__"]:
    """Phase A ends with snippets; a summary has no exact answer; a missing type fails in the next node."""
    if not runtime.context.settings.documents.answers:
        return "__end__"
    summary = type_of(runtime.context.cases[state["case_id"]]) == "summary"
    return "answer_ideally" if summary else "answer_exactly"
