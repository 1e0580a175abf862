"""Every node execution with its interval, what it read, decided and asked, and what came next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runs.trace_file import Line
from viewer.case_parts.facts import Fact, read_facts
from viewer.flags import Flag, explain

WIDTH = 1000
"""Of all intervals together, in the units of their drawings."""
_NARROWEST = 4.0


@dataclass(frozen=True, slots=True)
class CallRow:
    """One call; `address` is None where prompts and replies are left out."""

    address: str | None
    role: str
    sample: int
    model: str
    server: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    seconds: float
    retries: int
    replayed: bool
    fault: str


@dataclass(frozen=True, slots=True)
class Step:
    """One node execution.

    Attributes:
        index: Its place in the trace.
        left: Start of its bar, of `WIDTH`.
        width: Of its bar.
        reads: Keys of the state, each with the steps that had written it.
        following: Names of the next nodes, each with the step where it ran.
    """

    index: int
    node: str
    started: float
    seconds: float
    left: float
    width: float
    because: str
    facts: list[Fact]
    reads: list[tuple[str, list[int]]]
    writes: list[str]
    calls: list[CallRow]
    flags: list[Flag]
    error: str
    following: list[tuple[str, int | None]]


def executions(trace: Sequence[Line]) -> list[Line]:
    """The trace without its last line, which tells of the whole case."""
    return [step for step in trace if step["node"] != "__end__"]


def total_seconds(trace: Sequence[Line]) -> float | None:
    """Wall-clock time of a pass; None without a trace."""
    if not trace:
        return None
    last: float = trace[-1]["seconds"]
    return last


def read_steps(trace: Sequence[Line], link: Callable[[str], str | None]) -> list[Step]:
    """The node executions in the order of their start."""
    steps = executions(trace)
    whole = max((step["started"] + step["seconds"] for step in steps), default=0.0) or 1.0
    return [_step(index, steps, whole, link) for index in range(len(steps))]


def _step(index: int, steps: Sequence[Line], whole: float, link: Callable[[str], str | None]) -> Step:
    step = steps[index]
    left = min(WIDTH * step["started"] / whole, WIDTH - _NARROWEST)
    reads = step["reads"]
    return Step(
        index=index,
        node=step["node"],
        started=step["started"],
        seconds=step["seconds"],
        left=round(left, 1),
        width=round(min(max(WIDTH * step["seconds"] / whole, _NARROWEST), WIDTH - left), 1),
        because=step["because"],
        facts=read_facts(step["facts"]),
        # Runs of schema 1 tell the keys alone.
        reads=list(reads.items()) if isinstance(reads, dict) else [(key, []) for key in reads],
        writes=step.get("writes", []),
        calls=[read_call(call, link(call["key"])) for call in step["calls"]],
        flags=explain(step["flags"]),
        error=step["error"] or "",
        following=[(name, _next(name, index, steps)) for name in step["next"]],
    )


def _next(name: str, index: int, steps: Sequence[Line]) -> int | None:
    return next((place for place in range(index + 1, len(steps)) if steps[place]["node"] == name), None)


def read_call(call: Line, address: str | None) -> CallRow:
    """A call of a trace; older ones tell no server."""
    return CallRow(
        address=address,
        role=call["role"],
        sample=call["sample"],
        model=call["model"],
        server=call.get("server", ""),
        input_tokens=call["input_tokens"],
        output_tokens=call["output_tokens"],
        cached_tokens=call["cached_tokens"],
        seconds=call["seconds"],
        retries=call["retries"],
        replayed=call["replayed"],
        fault=call["fault"] or "",
    )
