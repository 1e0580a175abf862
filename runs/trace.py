"""From LangGraph's task events to trace lines: one line a node execution."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from nodes.core.failure import NodeFailure

Line = dict[str, Any]
Successors = Mapping[str, frozenset[str]]
"""Node to the nodes that may follow it."""

_HANDLER = "__error_handler__"


@dataclass(slots=True)
class _Execution:
    name: str
    superstep: int
    reads: list[str]
    started: float
    seconds: float | None = None
    writes: list[str] = field(default_factory=list)
    decision: Line | None = None
    error: str | None = None


@dataclass(slots=True)
class CaseTrace:
    """Collects the node executions of one case. Times are seconds since the case began."""

    case_id: str
    successors: Successors
    started_at: float = field(default_factory=time.time)
    _begin: float = field(default_factory=time.perf_counter)
    _executions: dict[str, _Execution] = field(default_factory=dict)

    def record(self, task: Mapping[str, Any], superstep: int) -> None:
        """Take the start or the end of a node, as the stream mode `tasks` tells it.

        Args:
            task: What LangGraph tells; an end has a result.
            superstep: Its number; those of a case are in order.
        """
        now = time.perf_counter() - self._begin
        if "result" not in task:
            reads = sorted(task["input"]) if isinstance(task["input"], dict) else []
            self._executions[task["id"]] = _Execution(task["name"], superstep, reads, started=now)
            return
        # LangGraph announces the end of an error handler whose start it never announced.
        execution = self._executions.setdefault(
            task["id"], _Execution(task["name"], superstep, [], started=now)
        )
        execution.seconds = now - execution.started
        error = task.get("error")
        execution.error = None if error is None else f"{type(error).__name__}: {error}"
        result = task.get("result")
        decisions = None
        if isinstance(result, dict):
            execution.writes = sorted(result.keys() - {"decisions"})
            decisions = result.get("decisions")
        if decisions:
            execution.decision = decisions[0]
        elif task.get("interrupts"):
            execution.decision = task["interrupts"][0]["value"]

    @property
    def seconds(self) -> float:
        """Since the case began."""
        return time.perf_counter() - self._begin

    def lines(self, failure: NodeFailure | None) -> list[Line]:
        """Trace lines in order of start; the calls of a failed node come from its failure."""
        executions = self._with_handlers_folded_in()
        return [self._line(step, executions, failure) for step in range(len(executions))]

    def _with_handlers_folded_in(self) -> list[_Execution]:
        """An error handler's decision belongs to the execution that failed; the two are one line."""
        kept = [one for one in self._executions.values() if not one.name.startswith(_HANDLER)]
        for handler in self._executions.values():
            name = handler.name.removeprefix(_HANDLER)
            failed = (one for one in kept if one.name == name and one.error and one.decision is None)
            if handler.name.startswith(_HANDLER) and (execution := next(failed, None)) is not None:
                execution.decision, execution.writes = handler.decision, handler.writes
        return kept

    def _line(self, step: int, executions: Sequence[_Execution], failure: NodeFailure | None) -> Line:
        execution = executions[step]
        line: Line = {
            "case_id": self.case_id,
            "step": step,
            "node": execution.name,
            "started": round(execution.started, 4),
            "seconds": round(execution.seconds if execution.seconds is not None else 0.0, 4),
            "reads": {key: _writers(key, execution, executions) for key in execution.reads},
            "writes": execution.writes,
            "because": "",
            "facts": {},
            "flags": [],
            "calls": [],
            "next": self._next(step, executions),
            "error": execution.error,
        }
        if execution.decision is not None:
            line |= {key: execution.decision[key] for key in ("because", "facts", "calls")}
            line["flags"] = execution.decision.get("flags", [])
        elif execution.error is not None and failure is not None:
            line["because"] = f"failed: {failure.error_class}: {failure}"
            line["calls"] = [asdict(call) for call in failure.calls]
        return line

    def _next(self, step: int, executions: Sequence[_Execution]) -> list[str]:
        """Which of the possible successors ran first after this node: the route that was taken."""
        execution = executions[step]
        possible = self.successors.get(execution.name, frozenset())
        later = [one for one in executions if one.name in possible and one.superstep > execution.superstep]
        first = min((one.superstep for one in later), default=None)
        return sorted({one.name for one in later if one.superstep == first})


def _writers(key: str, reader: _Execution, executions: Sequence[_Execution]) -> list[int]:
    """Steps that had written a key of the state before it was read; none wrote what a fan-out handed over."""
    return [
        step for step, one in enumerate(executions) if key in one.writes and one.superstep < reader.superstep
    ]
