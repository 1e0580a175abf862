"""Declaration of a node, next to its function; everything else is derived from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from nodes.core.context import Tool
from nodes.core.dry_run import CorrectedReply, MadeUp
from nodes.core.facts import Fact, Facts, Row
from nodes.core.recipe import Recipe, RecipeSection
from prompts import Contract

NodeRole = Literal["votes", "reflection", "ranker_vote", "vote_count"]
"""The part that a node has in a vote, for those who read votes out of traces."""


def never(recipe: Recipe) -> bool:
    """A node that no recipe switches off."""
    return False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list of cases.

    Attributes:
        cell: From the line of a case to a few words; empty where the case has nothing to show.
        counted: Whether a summary counts the cases by these words.
    """

    cell: Callable[[Mapping[str, Any]], str]
    counted: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeSpec:
    """A node of a graph.

    Attributes:
        run: The node itself; its name is the node's.
        sections: Sections of the recipe that it reads.
        tools: Tools that it uses in addition to models and prompts.
        prompts: Contracts of the prompts that it fills.
        results: Keys of its update for `cases.jsonl`, with the part of each that may be sent without texts.
        columns: Columns of its results in lists of cases, by heading.
        facts: Every fact of its decisions; lines for people come in this order.
        flags: Every flag that it raises, with its meaning in a sentence for people.
        impairs: Flags for failed requests without which the case continued.
        kind: Kind of its spans in a tracing viewer.
        role: Its part in a vote, if it has one.
        is_off: Whether a recipe does without it.
        demonstrations: Purpose of the demonstrations that it chooses, and the node that shows them.
        dry_replies: Replies of dry runs by reply format; formats with a schema need none.
        corrected: The reply that goes back with its faults quoted.
    """

    run: Callable[..., Any]
    sections: tuple[type[RecipeSection], ...] = ()
    tools: tuple[Tool[Any], ...] = ()
    prompts: tuple[Contract, ...] = ()
    results: Mapping[str, Callable[[Any], object]] = field(default_factory=dict)
    columns: Mapping[str, Column] = field(default_factory=dict)
    facts: Mapping[str, Fact] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    impairs: Sequence[str] = ()
    kind: str = "CHAIN"
    role: NodeRole | None = None
    is_off: Callable[[Recipe], bool] = never
    demonstrations: tuple[str, str] | None = None
    dry_replies: Mapping[str, MadeUp] = field(default_factory=dict)
    corrected: CorrectedReply | None = None

    def filled(self, recipe: Recipe) -> frozenset[str]:
        if self.is_off(recipe):
            return frozenset()
        unused = (name for kind in self.sections for name in recipe.section(kind).unused_prompts)
        return frozenset(contract.name for contract in self.prompts).difference(unused)

    @property
    def name(self) -> str:
        return self.run.__name__

    def rows(self, facts: Facts) -> list[Row]:
        return [
            row for name, fact in self.facts.items() if name in facts for row in fact.rows(facts[name], facts)
        ]
