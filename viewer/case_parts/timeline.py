"""The path of a case: each node execution with its input, decision and calls, and their route."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cases.texts import plural
from graph.system import find_node
from runs.record.manifest import GraphShape
from runs.record.trace_file import Line

_LONG = 240
_DEEP = 6


@dataclass(frozen=True, slots=True)
class Fact:
    """A named value: a text, or nested parts. `summary` is shown while it is collapsed."""

    name: str
    text: str
    summary: str = ""
    parts: list[Fact] = field(default_factory=list)


def read_facts(facts: dict[str, object]) -> list[Fact]:
    """All facts, in their order."""
    return [_fact(str(name), value, 0) for name, value in facts.items()]


def _fact(name: str, value: object, depth: int) -> Fact:
    if isinstance(value, list) and not any(isinstance(one, list | dict) for one in value):
        return _line(name, ", ".join(map(_text, value)) or "none", f"{len(value):,} values")
    if isinstance(value, dict) and not any(isinstance(one, list | dict) for one in value.values()):
        pairs = ", ".join(f"{key}: {_text(one)}" for key, one in value.items())
        return _line(name, pairs or "none", f"{len(value):,} values")
    if not isinstance(value, list | dict):
        return _line(name, _text(value), f"{len(str(value)):,} characters")
    if depth == _DEEP:
        return _line(name, str(value), "more")
    parts: Iterable[tuple[str, object]] = (
        value.items() if isinstance(value, dict) else ((str(number), one) for number, one in enumerate(value))
    )
    return Fact(
        name, "", plural(len(value), "entry"), [_fact(str(key), one, depth + 1) for key, one in parts]
    )


def _line(name: str, text: str, summary: str) -> Fact:
    return Fact(name, text, summary if len(text) > _LONG else "")


def _text(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


WIDTH = 1000
"""Width of the whole time line, in units of its drawing."""
_MIN_WIDTH = 4.0

START, END = "__start__", "__end__"


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag with its meaning in a sentence; empty if no node declares it."""

    name: str
    meaning: str


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
    thinking_tokens: int
    seconds: float
    retries: int
    replayed: bool
    fault: str


@dataclass(frozen=True, slots=True)
class Step:
    """One node execution.

    Attributes:
        left: Start of its bar, of `WIDTH`.
        reads: State keys, each with the steps that had written it.
        following: Names of the next nodes, each with the step that ran it.
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


def explain(flags: Sequence[str], meanings: Mapping[str, str]) -> list[Flag]:
    """Flags with the meanings that nodes declare, in their order."""
    return [Flag(flag, meanings.get(flag, "")) for flag in flags]


def executions(trace: Sequence[Line]) -> list[Line]:
    """The trace without its last line, which describes the whole case."""
    return [step for step in trace if step["node"] != END]


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
    node = find_node(step["node"])
    left = min(WIDTH * step["started"] / whole, WIDTH - _MIN_WIDTH)
    return Step(
        index=index,
        node=step["node"],
        started=step["started"],
        seconds=step["seconds"],
        left=round(left, 1),
        width=round(min(max(WIDTH * step["seconds"] / whole, _MIN_WIDTH), WIDTH - left), 1),
        because=step["because"],
        facts=read_facts(step["facts"]),
        reads=list(step["reads"].items()),
        writes=step["writes"],
        calls=[read_call(call, link(call["key"])) for call in step["calls"]],
        flags=explain(step["flags"], {} if node is None else node.flags),
        error=step["error"] or "",
        following=[(name, _next(name, index, steps)) for name in step["next"]],
    )


def _next(name: str, index: int, steps: Sequence[Line]) -> int | None:
    return next((place for place in range(index + 1, len(steps)) if steps[place]["node"] == name), None)


def read_call(call: Line, address: str | None) -> CallRow:
    """A call of a trace."""
    return CallRow(
        address=address,
        role=call["role"],
        sample=call["sample"],
        model=call["model"],
        server=call["server"],
        input_tokens=call["input_tokens"],
        output_tokens=call["output_tokens"],
        cached_tokens=call["cached_tokens"],
        thinking_tokens=call.get("thinking_tokens", 0),
        seconds=call["seconds"],
        retries=call["retries"],
        replayed=call["replayed"],
        fault=call["fault"] or "",
    )


@dataclass(slots=True)
class Visit:
    """A case's steps in one node; `first` is the first of them."""

    first: int
    times: int = 0
    seconds: float = 0.0
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """The path of a case: its nodes by name, and its edges in the order in which they were first taken."""

    visits: dict[str, Visit]
    edges: list[tuple[str, str]]


def read_route(steps: Sequence[Line], graph: GraphShape | None) -> Route:
    """The route, with edges from the start and to the end if the graph is known."""
    visits: dict[str, Visit] = {}
    taken: dict[tuple[str, str], None] = {}
    reached: set[str] = set()
    known = {(edge.source, edge.target): edge.conditional for edge in graph.edges} if graph else {}
    for index, step in enumerate(steps):
        name = step["node"]
        visit = visits.setdefault(name, Visit(index))
        visit.times += 1
        visit.seconds += step["seconds"]
        visit.failed |= step["error"] is not None and not step["facts"]
        if name not in reached and (START, name) in known:
            taken[START, name] = None
        for target in step["next"]:
            taken[name, target] = None
            reached.add(target)
        ended = (name, END) in known and not step["next"] and step["error"] is None
        # A router that returns nothing only ends the case if it was the last one.
        if ended and (not known[name, END] or index == len(steps) - 1):
            taken[name, END] = None
    return Route(visits, list(taken))
