"""A system is a wiring file `graph/NAME.py` with `build`, and a recipe `graph/recipes/NAME.yaml`."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph

from graph.recipe import packaged_recipes
from nodes.core.context import Context


class UnknownSystem(Exception):
    """No system of this name."""


def systems() -> list[str]:
    """Names of all systems."""
    return [name for name in packaged_recipes() if importlib.util.find_spec(f"graph.{name}") is not None]


def build_system(
    name: str,
    context_schema: type[Any] = Context,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph of a system.

    Args:
        name: Of the system.
        context_schema: What nodes are given at run time.
        checkpointer: Keeps states, for forks and for people who are asked in the middle.

    Raises:
        UnknownSystem: Names the nearest one.
        TypeError: A checkpointer is given, and the system's `build` takes none.
    """
    known = systems()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        raise UnknownSystem(f"unknown system {name!r}; {hint}")
    build = importlib.import_module(f"graph.{name}").build
    given = (context_schema,) if checkpointer is None else (context_schema, checkpointer)
    graph: CompiledStateGraph[Any, Any, Any, Any] = build(*given)
    return graph
