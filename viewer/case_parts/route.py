"""Which nodes and edges of the graph a case took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runs.manifest import GraphShape
from runs.trace_file import Line

START, END = "__start__", "__end__"
_HANDLER = "__error_handler__"


@dataclass(slots=True)
class Visit:
    """What a case did in one node; `first` is the step of its first execution."""

    first: int
    times: int = 0
    seconds: float = 0.0
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """The path of a case: its nodes by name, and its edges in the order in which they were first taken."""

    visits: dict[str, Visit]
    edges: list[tuple[str, str]]


def drawable(graph: GraphShape) -> GraphShape:
    """Without the error handlers: their decision is told with the node that failed."""
    nodes = [name for name in graph.nodes if not name.startswith(_HANDLER)]
    edges = [edge for edge in graph.edges if edge.source in nodes and edge.target in nodes]
    return GraphShape(nodes=nodes, edges=edges)


def read_route(steps: Sequence[Line], graph: GraphShape | None) -> Route:
    """The route, with the edges from the start and to the end where the graph has them."""
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
        # A router that returns nothing ends no case unless it was the last to be asked.
        if ended and (not known[name, END] or index == len(steps) - 1):
            taken[name, END] = None
    return Route(visits, list(taken))
