"""A system's graph as Mermaid text, every route drawn, failures too."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

from langgraph.graph.state import CompiledStateGraph

_HANDLER = "__error_handler__"


def draw_mermaid(graph: CompiledStateGraph[Any, Any, Any, Any]) -> str:
    """Mermaid text. LangGraph draws no edges of error handlers, so their routes are added here."""
    drawable = graph.get_graph()
    for name, spec in graph.builder.nodes.items():
        if not name.startswith(_HANDLER):
            continue
        failing = name.removeprefix(_HANDLER)
        drawable.add_edge(drawable.nodes[failing], drawable.nodes[name], "fails", conditional=True)
        for target in _targets(spec.runnable):
            drawable.add_edge(drawable.nodes[name], drawable.nodes[target], conditional=True)
    # The id stays; the label says what the handler does.
    return drawable.draw_mermaid().replace(f"({_HANDLER}", "(on failure: ")


def _targets(handler: Any) -> list[str]:
    """The `Literal` of the handler's `Command[...]` annotation."""
    function = getattr(handler, "afunc", None) or handler.func
    (names,) = get_args(get_type_hints(function)["return"])
    return list(get_args(names))
