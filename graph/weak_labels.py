"""Weak labels from clinicians' answers (TAMU-NLP at ArchEHR-QA 2026, section 3.1). Wiring only."""

from __future__ import annotations

from typing import Any, Literal

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from graph.inline import inline
from graph.state import CaseInput, State
from nodes.core.context import Context
from nodes.evidence.aggregate_votes import aggregate_votes
from nodes.evidence.label_from_answer import label_from_answer


def after_labelling(state: State) -> Literal["aggregate_votes", "__end__"]:
    """Votes are counted; citations, and labels of people, stand as they are."""
    return "aggregate_votes" if state.get("votes") else "__end__"


def build(
    context_schema: type[Any] = Context, checkpointer: BaseCheckpointSaver[Any] | None = None
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph; batches need no checkpointer, because the call journal is the resume."""
    builder = StateGraph(State, context_schema=context_schema, input_schema=CaseInput)
    builder.add_node("label_from_answer", label_from_answer)
    builder.add_node("aggregate_votes", aggregate_votes)
    builder.add_edge(START, "label_from_answer")
    builder.add_conditional_edges("label_from_answer", inline(after_labelling), ["aggregate_votes", END])
    builder.add_edge("aggregate_votes", END)
    return builder.compile(checkpointer, name="weak_labels")
