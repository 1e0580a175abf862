"""heiDS at ArchEHR-QA 2025: as many sentences as the scores say, then an answer with citations.

Wiring only.
"""

from __future__ import annotations

from typing import Any, Literal

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from graph.inline import inline
from graph.state import CaseInput, State
from nodes.answer.attribute_answer import attribute_answer
from nodes.answer.check_answer import check_answer
from nodes.answer.generate_cited_answer import generate_cited_answer
from nodes.answer.generate_uncited_answer import generate_uncited_answer
from nodes.answer.validate_citations import validate_citations
from nodes.core.context import Context
from nodes.question.adopt_patient_question import adopt_patient_question
from nodes.retrieval.retrieve_sentences import retrieve_sentences


def begin(
    state: CaseInput, runtime: Runtime[Context]
) -> Literal["adopt_patient_question", "retrieve_sentences"]:
    """A case without a clinician question is answered on the patient's own."""
    case = runtime.context.cases[state["case_id"]]
    return "retrieve_sentences" if case.question.strip() else "adopt_patient_question"


def after_retrieval(
    state: State, runtime: Runtime[Context]
) -> Literal["generate_cited_answer", "generate_uncited_answer", "__end__"]:
    """Stop here where the recipe wants retrieval alone; else the recipe says when citations are made."""
    settings = runtime.context.settings
    if settings.stop_after == "evidence":
        return "__end__"
    cites = settings.citation.method == "post_retrieval"
    return "generate_cited_answer" if cites else "generate_uncited_answer"


def after_validation(state: State) -> Literal["generate_cited_answer", "__end__"]:
    """An answer that was sent back is written again."""
    return "__end__" if "answer" in state else "generate_cited_answer"


def after_check(state: State) -> Literal["generate_uncited_answer", "attribute_answer"]:
    """An answer that was sent back is written again; only an accepted one is attributed."""
    return "attribute_answer" if "answer" in state else "generate_uncited_answer"


def build(
    context_schema: type[Any] = Context, checkpointer: BaseCheckpointSaver[Any] | None = None
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph; batches need no checkpointer, because the call journal is the resume."""
    builder = StateGraph(State, context_schema=context_schema, input_schema=CaseInput)
    builder.add_node("adopt_patient_question", adopt_patient_question)
    builder.add_node("retrieve_sentences", retrieve_sentences)
    builder.add_node("generate_cited_answer", generate_cited_answer)
    builder.add_node("validate_citations", validate_citations)
    builder.add_node("generate_uncited_answer", generate_uncited_answer)
    builder.add_node("check_answer", check_answer)
    builder.add_node("attribute_answer", attribute_answer)

    builder.add_conditional_edges(START, inline(begin), ["adopt_patient_question", "retrieve_sentences"])
    builder.add_edge("adopt_patient_question", "retrieve_sentences")
    builder.add_conditional_edges(
        "retrieve_sentences",
        inline(after_retrieval),
        ["generate_cited_answer", "generate_uncited_answer", END],
    )
    builder.add_edge("generate_cited_answer", "validate_citations")
    builder.add_conditional_edges(
        "validate_citations", inline(after_validation), ["generate_cited_answer", END]
    )
    builder.add_edge("generate_uncited_answer", "check_answer")
    builder.add_conditional_edges(
        "check_answer", inline(after_check), ["generate_uncited_answer", "attribute_answer"]
    )
    builder.add_edge("attribute_answer", END)
    return builder.compile(checkpointer, name="heids")
