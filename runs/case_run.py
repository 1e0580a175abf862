"""One case through a graph: its line for `cases.jsonl` and its trace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.graph.state import CompiledStateGraph

from cases.records import Case, InvalidCase
from nodes.context import Context
from nodes.failure import NodeFailure, as_failure
from runs.trace import CaseTrace, Line, Successors

Graph = CompiledStateGraph[Any, Context, Any, Any]

RECURSION_LIMIT = 500
"""Supersteps of a case; at worst each of 101 votes is asked for by itself, in three supersteps."""

_RESULTS = (
    "interpreted_question",
    "intent",
    "ranker_scores",
    "ranker_vote",
    "vote_counts",
    "usable_votes",
    "asked_votes",
    "label_confidence",
    "evidence",
    "label_source",
    "answer_evidence",
    "answer",
    "answer_sentences",
    "alignment",
    "aligned_answer",
)


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How a case ended. `line` holds nothing that differs between equal runs, so no times."""

    line: Line
    trace: list[Line]


def successors(graph: Graph) -> Successors:
    """Which nodes may follow which."""
    following: dict[str, set[str]] = {}
    for edge in graph.get_graph().edges:
        following.setdefault(edge.source, set()).add(edge.target)
    return {node: frozenset(targets) for node, targets in following.items()}


async def run_case(graph: Graph, context: Context, case: Case, following: Successors) -> CaseResult:
    """Run a case to its end; whatever goes wrong with it becomes its error.

    Raises:
        JournalError: The run itself cannot go on.
    """
    trace = CaseTrace(case.id, following)
    state: dict[str, Any] = {}
    failure: NodeFailure | None = None
    try:
        stream: AsyncIterator[Any] = graph.astream(
            {"case_id": case.id},
            {"recursion_limit": RECURSION_LIMIT},
            context=context,
            stream_mode=["debug", "values"],
        )
        async for mode, event in stream:
            if mode == "debug":
                trace.record(event)
            else:
                state = event
    except Exception as error:
        # The border of a case: its failure, of any kind, must not touch the others.
        failure = as_failure(error)
    lines = trace.lines(failure)
    line = case_line(case.id, case.sentence_ids, state, lines, failure)
    return CaseResult(line, [*lines, end_line(line, len(lines), trace)])


def invalid_case(case: InvalidCase) -> CaseResult:
    """The result of a case that cannot be read."""
    line = case_line(case.id, (), {}, [], NodeFailure("invalid_input", case.fault))
    return CaseResult(line, [end_line(line, 0, None)])


def case_line(
    case_id: str,
    sentence_ids: Sequence[str],
    state: dict[str, Any],
    trace: Sequence[Line],
    failure: NodeFailure | None,
) -> Line:
    """What a case came to, for `cases.jsonl`."""
    calls = [call for line in trace for call in line["calls"]]
    evidence = state.get("evidence")
    labelled = sentence_ids if evidence is not None else ()
    essential = set(evidence["threshold"] if evidence is not None else ())
    line: Line = {
        "case_id": case_id,
        "status": "failed" if failure else "done",
        "error": {"class": failure.error_class, "message": str(failure)} if failure else None,
        "labels": {id_: "essential" if id_ in essential else "not-essential" for id_ in labelled},
        "flags": sorted({flag for line in trace for flag in line["flags"]}),
        "usage": {
            "calls": len(calls),
            "input_tokens": sum(call["input_tokens"] for call in calls),
            "output_tokens": sum(call["output_tokens"] for call in calls),
        },
    }
    return line | {name: state.get(name) for name in _RESULTS}


def end_line(line: Line, step: int, trace: CaseTrace | None) -> Line:
    """The last line of a case's trace."""
    return {
        "case_id": line["case_id"],
        "step": step,
        "node": "__end__",
        "started_at": round(trace.started_at, 3) if trace else None,
        "seconds": round(trace.seconds, 4) if trace else 0.0,
        "status": line["status"],
        "error": line["error"],
    }
