"""Where a fork begins: a node, and which of its executions."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runs.manifest import RunError
from runs.trace import Line


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """What runs again.

    Attributes:
        node: The node.
        step: Its step in the trace; the first one of the node, unless the user named another.
        alone: Whether this execution alone runs again, or with it those of the same node that began
            together with it, such as the reflections of all votes.
    """

    node: str
    step: int
    alone: bool


def find_fork_point(
    trace: Sequence[Line], nodes: Iterable[str], node: str | None, step: int | None
) -> ForkPoint:
    """Find it in the trace of a case.

    Args:
        trace: The node executions of the case, its end line aside.
        nodes: All nodes of the graph.
        node: What the user named, None where the step says enough.
        step: A certain one of its executions, None for those that began first.

    Raises:
        RunError: The node did not run, is unknown, or is another one at that step.
    """
    if node is None and step is None:
        raise RunError(f"name the node that runs again; {_ran(trace)}")
    if node is not None and all(line["node"] != node for line in trace):
        raise RunError(_not_run(trace, nodes, node))
    if step is None:
        first = next(line["step"] for line in trace if line["node"] == node)
        return ForkPoint(str(node), first, alone=False)
    found = next((line["node"] for line in trace if line["step"] == step), None)
    if found is None:
        raise RunError(f"there is no step {step}; {_ran(trace)}")
    if node is not None and found != node:
        steps = ", ".join(str(line["step"]) for line in trace if line["node"] == node)
        raise RunError(f"step {step} is {found}; {node} ran at {steps}")
    return ForkPoint(found, step, alone=True)


def _not_run(trace: Sequence[Line], nodes: Iterable[str], node: str) -> str:
    known = {name for name in nodes if not name.startswith("__")}
    if node in known:
        return f"{node} did not run on this case; {_ran(trace)}"
    ran = {line["node"] for line in trace}
    near = difflib.get_close_matches(node, ran, n=1) or difflib.get_close_matches(node, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"no node {node!r}; {hint}{_ran(trace)}"


def _ran(trace: Sequence[Line]) -> str:
    if not trace:
        return "no node ran on this case"
    steps: dict[str, list[str]] = {}
    for line in trace:
        steps.setdefault(line["node"], []).append(str(line["step"]))
    return "what ran, with its steps: " + ", ".join(
        f"{node} {' '.join(numbers)}" for node, numbers in steps.items()
    )
