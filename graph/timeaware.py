"""Yes, no or unknown from dated literature, by a vote over passages (Vladika and Matthes 2024).

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
from nodes.core.context import Context
from nodes.question.adopt_patient_question import adopt_patient_question
from nodes.reading.aggregate_verdict import aggregate_verdict
from nodes.reading.explain_verdict import explain_verdict
from nodes.reading.read_passages import read_passages
from nodes.reading.select_passages import select_passages
from nodes.retrieval.filter_documents import filter_documents
from nodes.retrieval.search_literature import search_literature


def begin(
    state: CaseInput, runtime: Runtime[Context]
) -> Literal["search_literature", "adopt_patient_question"]:
    """A case without a question is asked for its patient's own."""
    asked = runtime.context.cases[state["case_id"]].question.strip()
    return "search_literature" if asked else "adopt_patient_question"


def after_filters(state: State) -> Literal["select_passages", "aggregate_verdict"]:
    """Without a document there is nothing to read, and the rule of the vote says what that means."""
    return "select_passages" if state["kept_documents"] else "aggregate_verdict"


def after_selection(state: State) -> Literal["read_passages", "aggregate_verdict"]:
    """As without a document."""
    return "read_passages" if state["passages"] else "aggregate_verdict"


def after_verdict(state: State, runtime: Runtime[Context]) -> Literal["explain_verdict", "__end__"]:
    """An explanation only where the recipe wants one and there is evidence to explain it from."""
    wanted = runtime.context.settings.verdict.explain
    return "explain_verdict" if wanted and state["evidence_passages"] else "__end__"


def build(
    context_schema: type[Any] = Context, checkpointer: BaseCheckpointSaver[Any] | None = None
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph; batches need no checkpointer, because the call journal is the resume."""
    builder = StateGraph(State, context_schema=context_schema, input_schema=CaseInput)
    builder.add_node("adopt_patient_question", adopt_patient_question)
    builder.add_node("search_literature", search_literature)
    builder.add_node("filter_documents", filter_documents)
    builder.add_node("select_passages", select_passages)
    builder.add_node("read_passages", read_passages)
    builder.add_node("aggregate_verdict", aggregate_verdict)
    builder.add_node("explain_verdict", explain_verdict)

    builder.add_conditional_edges(START, inline(begin), ["search_literature", "adopt_patient_question"])
    builder.add_edge("adopt_patient_question", "search_literature")
    builder.add_edge("search_literature", "filter_documents")
    builder.add_conditional_edges(
        "filter_documents", inline(after_filters), ["select_passages", "aggregate_verdict"]
    )
    builder.add_conditional_edges(
        "select_passages", inline(after_selection), ["read_passages", "aggregate_verdict"]
    )
    builder.add_edge("read_passages", "aggregate_verdict")
    builder.add_conditional_edges("aggregate_verdict", inline(after_verdict), ["explain_verdict", END])
    builder.add_edge("explain_verdict", END)
    return builder.compile(checkpointer, name="timeaware")
