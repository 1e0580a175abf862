"""BioASQ's two phases: documents and snippets, then exact answers and answers in words (Verma et al. 2025).

Wiring only.
"""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from graph.bioasq_routes import after_reranking, after_retrieval, after_snippets, begin
from graph.inline import inline
from graph.state import CaseInput, State
from nodes.answer.aggregate_exact_answers import aggregate_exact_answers
from nodes.answer.answer_exactly import answer_exactly
from nodes.answer.answer_ideally import answer_ideally
from nodes.core.context import Context
from nodes.retrieval.adopt_snippets import adopt_snippets
from nodes.retrieval.combine_rankings import combine_rankings
from nodes.retrieval.reformulate_question import reformulate_question
from nodes.retrieval.rerank_by_model import rerank_by_model
from nodes.retrieval.rerank_documents import rerank_documents
from nodes.retrieval.retrieve_documents import retrieve_documents
from nodes.retrieval.select_snippets import select_snippets


def build(
    context_schema: type[Any] = Context, checkpointer: BaseCheckpointSaver[Any] | None = None
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph; batches need no checkpointer, because the call journal is the resume."""
    builder = StateGraph(State, context_schema=context_schema, input_schema=CaseInput)
    builder.add_node("reformulate_question", reformulate_question)
    builder.add_node("retrieve_documents", retrieve_documents)
    builder.add_node("rerank_documents", rerank_documents)
    builder.add_node("rerank_by_model", rerank_by_model)
    builder.add_node("combine_rankings", combine_rankings)
    builder.add_node("select_snippets", select_snippets)
    builder.add_node("adopt_snippets", adopt_snippets)
    builder.add_node("answer_exactly", answer_exactly)
    builder.add_node("aggregate_exact_answers", aggregate_exact_answers)
    builder.add_node("answer_ideally", answer_ideally)

    builder.add_conditional_edges(
        START, inline(begin), ["adopt_snippets", "reformulate_question", "retrieve_documents"]
    )
    builder.add_edge("reformulate_question", "retrieve_documents")
    builder.add_conditional_edges(
        "retrieve_documents",
        inline(after_retrieval),
        ["rerank_documents", "rerank_by_model", "combine_rankings"],
    )
    builder.add_conditional_edges(
        "rerank_documents", inline(after_reranking), ["rerank_by_model", "combine_rankings"]
    )
    builder.add_edge("rerank_by_model", "combine_rankings")
    builder.add_edge("combine_rankings", "select_snippets")
    for snippets in ("select_snippets", "adopt_snippets"):
        builder.add_conditional_edges(
            snippets, inline(after_snippets), ["answer_exactly", "answer_ideally", END]
        )
    builder.add_edge("answer_exactly", "aggregate_exact_answers")
    builder.add_edge("aggregate_exact_answers", "answer_ideally")
    builder.add_edge("answer_ideally", END)
    return builder.compile(checkpointer, name="bioasq")
