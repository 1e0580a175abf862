"""A system: recipe, state, nodes, wiring, resources, scoring.

Each is declared in a file `graph/NAME.py` as `SYSTEM`, with a recipe `graph/recipes/NAME.yaml`. Everything
that differs between systems is read from there.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Any, Literal

from langchain_core.runnables.graph import Graph
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from graph.resource import Resource
from nodes.core.context import Context
from nodes.core.node import Column, NodeRole, NodeSpec
from nodes.core.recipe import Recipe, RecipeError
from nodes.core.state import CaseInput
from prompts import Contract

Builder = StateGraph[Any, Any, Any, Any]
CompiledGraph = CompiledStateGraph[Any, Any, Any, Any]

ScoreName = Literal["archehr", "verdict", "biomedical"]
"""How answers are scored against a key: as in ArchEHR-QA, by verdicts, or as in BioASQ."""


class UnknownSystem(RecipeError):
    """No system of this name."""


@dataclass(frozen=True, kw_only=True, eq=False)
class System:
    """Declaration of a system.

    Attributes:
        summary: Its task, in a line.
        recipe: The schema of its recipes.
        state: What its nodes pass on.
        nodes: In the order in which people read them.
        wire: Adds the edges to a builder that has the nodes.
        resources: Resources other than models and prompts, in the order of opening.
        score: How its answers are scored; None for a system without answers.
        samples: File of `cases/samples/` that it can be tried on.
    """

    summary: str
    recipe: type[Recipe]
    state: type[Any]
    nodes: tuple[NodeSpec, ...]
    wire: Callable[[Builder], Any]
    resources: tuple[Resource, ...] = ()
    score: ScoreName | None = None
    samples: str = "batch.xml"

    @property
    def name(self) -> str:
        return str(self.recipe.model_fields["system"].default)

    def build(
        self,
        context_schema: type[Any] = Context,
        checkpointer: BaseCheckpointSaver[Any] | None = None,
    ) -> CompiledGraph:
        """The compiled graph.

        Args:
            context_schema: What nodes are given at run time.
            checkpointer: Keeps states, for forks and for people who are asked in the middle; batches need
                none, because the call journal is their resume.
        """
        builder: Builder = StateGraph(self.state, context_schema=context_schema, input_schema=CaseInput)
        for node in self.nodes:
            builder.add_node(node.name, node.run)
        self.wire(builder)
        return builder.compile(checkpointer, name=self.name)

    @cached_property
    def graph(self) -> CompiledGraph:
        """The compiled graph without a checkpointer, made once: that takes longer than a case."""
        return self.build()

    @cached_property
    def drawn(self) -> Graph:
        """Nodes and edges."""
        return self.graph.get_graph()

    @cached_property
    def successors(self) -> Mapping[str, frozenset[str]]:
        """Which nodes may follow which."""
        following: dict[str, set[str]] = {}
        for edge in self.drawn.edges:
            following.setdefault(edge.source, set()).add(edge.target)
        return {node: frozenset(targets) for node, targets in following.items()}

    def node(self, name: str) -> NodeSpec | None:
        return next((node for node in self.nodes if node.name == name), None)

    @cached_property
    def results(self) -> dict[str, Callable[[Any], object]]:
        """Keys of the state that `cases.jsonl` gets, with what of each may leave without texts."""
        return {key: keep for node in self.nodes for key, keep in node.results.items()}

    @cached_property
    def contracts(self) -> tuple[Contract, ...]:
        return tuple(contract for node in self.nodes for contract in node.prompts)

    @cached_property
    def flags(self) -> dict[str, str]:
        return {name: meaning for node in self.nodes for name, meaning in node.flags.items()}

    @cached_property
    def columns(self) -> dict[str, Column]:
        return {name: column for node in self.nodes for name, column in node.columns.items()}

    @cached_property
    def impairments(self) -> frozenset[str]:
        return frozenset(name for node in self.nodes for name in node.impairs)

    @cached_property
    def compared(self) -> dict[str, tuple[str, ...]]:
        """Fields of the records of its resources that have to be the same on resume."""
        return {name: fields for resource in self.resources for name, fields in resource.compared.items()}

    def used_prompts(self, recipe: Recipe) -> frozenset[str]:
        return frozenset(name for node in self.nodes for name in node.filled(recipe))


def systems() -> list[str]:
    """Names of all systems."""
    packaged = (entry.name for entry in resources.files("graph").joinpath("recipes").iterdir())
    names = sorted(name.removesuffix(".yaml") for name in packaged if name.endswith(".yaml"))
    return [name for name in names if importlib.util.find_spec(f"graph.{name}") is not None]


@cache
def find_system(name: str) -> System:
    """A system by its name.

    Raises:
        UnknownSystem: Names the nearest one.
    """
    known = systems()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        raise UnknownSystem(f"unknown system {name!r}; {hint}")
    found: System = importlib.import_module(f"graph.{name}").SYSTEM
    return found


@cache
def find_node(name: str) -> NodeSpec | None:
    """A node of any system by its name."""
    found = (find_system(system).node(name) for system in systems())
    return next((node for node in found if node is not None), None)


def node_role(name: str) -> NodeRole | None:
    """The part of a node in a vote; None for any other, and for a node that no system has."""
    node = find_node(name)
    return None if node is None else node.role
