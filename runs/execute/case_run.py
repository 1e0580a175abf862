"""One case through a graph: its line for `cases.jsonl` and its trace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command

from cases.records import Case, InvalidCase
from graph.system import System
from nodes.core.context import Context
from nodes.core.failure import NodeFailure, as_failure
from runs.execute.reply_quality import degraded_steps, reply_fields
from runs.record.manifest import DONE, FAILED, WAITING
from runs.record.trace_file import CaseTrace, Line
from runs.review.reviews import Review, fingerprint
from serving.batches.pending import CallPending

Graph = CompiledStateGraph[Any, Context, Any, Any]

RECURSION_LIMIT = 500
"""Supersteps of a case; at worst each of 101 votes is asked for by itself, in three supersteps."""

_INTERRUPT = "__interrupt__"
"""LangGraph's key for interrupts, among the values of its state."""

Tell = Callable[[str, Line], None]
"""Called with the id of a case and a line about a node, when it begins and when it ends."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How a case ended. `line` holds nothing that differs between equal runs, so no times."""

    line: Line
    trace: list[Line]


CaseRunner = Callable[[Case, Review | None], Awaitable[CaseResult]]
"""Runs a case to its end; `run_case` does so in this process.

Raises JournalError, BudgetSpent or CallPending if the run itself cannot go on or the case waits, CallError if
nothing is left that runs cases or a service denies access.
"""


async def run_case(
    system: System,
    graph: Graph,
    context: Context,
    case: Case,
    review: Review | None = None,
    tell: Tell | None = None,
) -> CaseResult:
    """Run a case to its end; whatever goes wrong with it becomes its error.

    A case that a person has looked at runs from its start again, on replayed calls, so nothing has to be
    kept of it while it waits.

    The graph, of the system, needs a checkpointer where cases may wait for a person. It resumes with
    `review`: without one, or with one for another result, the case keeps waiting.

    Raises:
        JournalError: The run itself cannot go on.
        CallError: A service denies access.
        CallPending: The case waits for batches.
    """
    trace = CaseTrace(case.id, system.successors)
    state: dict[str, Any] = {}
    superstep = 0
    failure: NodeFailure | None = None
    try:
        given: Any = {"case_id": case.id}
        while True:
            stream: AsyncIterator[Any] = graph.astream(
                given,
                case_config(case.id),
                context=context,
                # `debug` also reports supersteps, but took 8 % more of the processor time of a scripted
                # batch.
                stream_mode=["tasks", "values"],
                durability="exit" if graph.checkpointer else None,
            )
            async for mode, event in stream:
                if mode == "tasks":
                    known = trace.record(event, superstep)
                    if tell is not None:
                        tell(case.id, known)
                else:
                    state = event
                    superstep += 1
            first_wait = _INTERRUPT in state and not isinstance(given, Command)
            if not (first_wait and _fits(review, case, state)):
                break
            given = Command(resume=review.reply())
    except CallPending as pending:
        pending.trace = trace.lines(None)
        raise
    except Exception as error:
        # The border of a case: its failure, of any kind, must not touch the others.
        failure = as_failure(error)
    finally:
        await forget_case(graph, case.id)
    lines = trace.lines(failure)
    line = case_line(case.id, case.sentence_ids, state, lines, failure, system.results)
    return CaseResult(line, [*lines, end_line(line, len(lines), trace)])


def case_config(case_id: str) -> RunnableConfig:
    """LangGraph's configuration of a case."""
    return {"recursion_limit": RECURSION_LIMIT, "configurable": {"thread_id": case_id, "checkpoint_ns": ""}}


async def forget_case(graph: Graph, case_id: str) -> None:
    """Drop the states that a graph with a checkpointer keeps of a case."""
    if isinstance(graph.checkpointer, BaseCheckpointSaver):
        await graph.checkpointer.adelete_thread(case_id)


def invalid_case(case: InvalidCase, results: Iterable[str]) -> CaseResult:
    """The result of a case that cannot be read."""
    return failed_case(case, NodeFailure("invalid_input", case.fault), results)


def failed_case(case: Case | InvalidCase, failure: NodeFailure, results: Iterable[str]) -> CaseResult:
    """The result of a case of which nothing is known but why it failed."""
    line = case_line(case.id, (), {}, [], failure, results)
    return CaseResult(line, [end_line(line, 0, None)])


def case_line(
    case_id: str,
    sentence_ids: Sequence[str],
    state: dict[str, Any],
    trace: Sequence[Line],
    failure: NodeFailure | None,
    results: Iterable[str],
) -> Line:
    """Result of a case, for `cases.jsonl`."""
    calls = [call for line in trace for call in line["calls"]]
    line: Line = {
        "case_id": case_id,
        "status": FAILED if failure else WAITING if _INTERRUPT in state else DONE,
        "error": {"class": failure.error_class, "message": str(failure)} if failure else None,
        "labels": _labels(sentence_ids, state),
        "flags": sorted({flag for line in trace for flag in line["flags"]}),
        "usage": {
            "calls": len(calls),
            "input_tokens": sum(call["input_tokens"] for call in calls),
            "output_tokens": sum(call["output_tokens"] for call in calls),
            **reply_fields(calls),
        },
    }
    if degraded := degraded_steps(trace):
        line["degraded"] = degraded
    return line | {name: state.get(name) for name in results}


def _labels(sentence_ids: Sequence[str], state: Mapping[str, Any]) -> dict[str, str]:
    evidence = state.get("evidence")
    if evidence is None:
        return {}
    essential = set(evidence["threshold"])
    return {id_: "essential" if id_ in essential else "not-essential" for id_ in sentence_ids}


def _fits(review: Review | None, case: Case, state: Mapping[str, Any]) -> TypeGuard[Review]:
    """Whether the review is for the labels that the case is waiting with."""
    if review is None or review.labels is None:
        return False
    return review.independent or review.shown == fingerprint(
        {"case_id": case.id, "labels": _labels(case.sentence_ids, state), "answer": state.get("answer")}
    )


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
