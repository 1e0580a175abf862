"""A batch without a trace, to measure what the trace costs: no other code has a use for one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

from runs.case_run import Graph
from runs.folder import Line, RunWriter


class _UntracedGraph:
    """A graph that streams its state alone, whatever it is asked for: nothing is there to be recorded."""

    def __init__(self, graph: Graph) -> None:
        """In front of a compiled graph."""
        self._graph = graph

    def __getattr__(self, name: str) -> Any:
        """All else is the graph's."""
        return getattr(self._graph, name)

    async def astream(self, *arguments: Any, **options: Any) -> AsyncIterator[tuple[str, Any]]:
        """States, in the form that a stream of several modes has."""
        async for state in self._graph.astream(*arguments, **{**options, "stream_mode": "values"}):
            yield "values", state


def untraced(graph: Graph) -> Graph:
    """The graph without the events that a trace is made of."""
    return cast("Graph", _UntracedGraph(graph))


class UntracedWriter(RunWriter):
    """Writes a run without its trace."""

    def append(self, case: Line, trace: Sequence[Line]) -> None:
        """Add an ended case alone."""
        super().append(case, ())
