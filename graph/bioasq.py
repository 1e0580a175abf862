"""Answers to biomedical questions, exact and in words, by few-shot prompts (Verma et al. 2025).

Wiring only.
"""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from graph.bioasq_routes import after_snippets, begin
from graph.inline import inline
from graph.state import CaseInput, State
from nodes.adopt_snippets import adopt_snippets
from nodes.aggregate_exact_answers import aggregate_exact_answers
from nodes.answer_exactly import answer_exactly
from nodes.answer_ideally import answer_ideally
from nodes.context import Context


def build(
    context_schema: type[Any] = Context, checkpointer: BaseCheckpointSaver[Any] | None = None
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph; batches need no checkpointer, because the call journal is the resume."""
    builder = StateGraph(State, context_schema=context_schema, input_schema=CaseInput)
    builder.add_node("adopt_snippets", adopt_snippets)
    builder.add_node("answer_exactly", answer_exactly)
    builder.add_node("aggregate_exact_answers", aggregate_exact_answers)
    builder.add_node("answer_ideally", answer_ideally)

    builder.add_conditional_edges(START, inline(begin), ["adopt_snippets"])
    builder.add_conditional_edges(
        "adopt_snippets", inline(after_snippets), ["answer_exactly", "answer_ideally", END]
    )
    builder.add_edge("answer_exactly", "aggregate_exact_answers")
    builder.add_edge("aggregate_exact_answers", "answer_ideally")
    builder.add_edge("answer_ideally", END)
    return builder.compile(checkpointer, name="bioasq")
