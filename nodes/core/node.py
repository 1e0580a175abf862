"""What is true of a node, declared beside it; everything else that needs to know derives it from here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cases.records import Case
from nodes.core.context import Tool
from nodes.core.dry_run import CorrectedReply, MadeUp
from nodes.core.facts import Fact, Facts, Row
from nodes.core.recipe import Recipe, RecipeSection
from prompts import Contract, PromptSet
from serving.protocol.model_name import Role

NodeRole = Literal["votes", "reflection", "ranker_vote", "vote_count"]
"""The part that a node has in a vote, for those who read votes out of traces."""

CaseKey = tuple[str, ...]
CaseKeys = Callable[[Sequence[Case]], Awaitable[list[CaseKey]]]
"""Cases to keys: prompts of cases with equal keys begin alike."""


def never(recipe: Recipe) -> bool:
    """A node that no recipe switches off."""
    return False


def any_prompts(recipe: Recipe, prompts: PromptSet) -> str | None:
    """No demand on prompts beyond their contracts."""
    return None


def nothing_weighed(recipe: Recipe) -> None:
    """No question whose reply is one of several choices."""


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
        tools: What it uses beside models and prompts.
        prompts: Contracts of the prompts that it fills.
        results: Keys of its update that `cases.jsonl` gets, with what of each may leave without texts.
        columns: What a list of cases shows of its results, by heading.
        facts: Every fact of its decisions; lines for people come in this order.
        flags: Every flag that it raises, with its meaning in a sentence for people.
        quotes: Flags whose decisions quote a reply in their reason.
        impairs: Flags that say that something asked for failed, and the case went on without it.
        kind: What a span of it is called in a tracing viewer.
        role: Its part in a vote, if it has one.
        is_off: Whether a recipe does without it.
        demonstrations: What the demonstrations that it chooses are for, and the node that shows them.
        dry_replies: What a dry run replies, by the name of the reply's format; one with a schema needs none.
        corrected: The reply that goes back with its faults quoted.
        foresee: From a case and tools to likely values of fields of a reply, for a dry run.
        case_keys: From a recipe and tools to what cases are ordered by, so that prompts with equal beginnings
            run near one another and a server's prefix cache is of use; None where the order cannot matter.
        check: What is wrong with the prompts for a recipe, in words; None where nothing is.
        fills: Names of its prompts that a recipe makes use of; None where that is all of them.
        weighs: The role whose model must give the log-probabilities of choices, with the field of the recipe
            that wants them; None where none must.
    """

    run: Callable[..., Any]
    sections: tuple[type[RecipeSection], ...] = ()
    tools: tuple[Tool[Any], ...] = ()
    prompts: tuple[Contract, ...] = ()
    results: Mapping[str, Callable[[Any], object]] = field(default_factory=dict)
    columns: Mapping[str, Column] = field(default_factory=dict)
    facts: Mapping[str, Fact] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    quotes: Sequence[str] = ()
    impairs: Sequence[str] = ()
    kind: str = "CHAIN"
    role: NodeRole | None = None
    is_off: Callable[[Recipe], bool] = never
    demonstrations: tuple[str, str] | None = None
    dry_replies: Mapping[str, MadeUp] = field(default_factory=dict)
    corrected: CorrectedReply | None = None
    foresee: Callable[[Case, Mapping[str, Any]], Awaitable[Mapping[str, str]]] | None = None
    case_keys: Callable[[Recipe, Mapping[str, Any]], CaseKeys | None] | None = None
    check: Callable[[Recipe, PromptSet], str | None] = any_prompts
    fills: Callable[[Recipe], Collection[str]] | None = None
    weighs: Callable[[Recipe], tuple[Role, str] | None] = nothing_weighed

    def filled(self, recipe: Recipe) -> frozenset[str]:
        """Names of the prompts that a recipe makes use of."""
        if self.is_off(recipe):
            return frozenset()
        names = frozenset(contract.name for contract in self.prompts)
        return names if self.fills is None else names.intersection(self.fills(recipe))

    @property
    def name(self) -> str:
        """The name of its function."""
        return self.run.__name__

    def rows(self, facts: Facts) -> list[Row]:
        """The lines under a decision of this node."""
        return [
            row for name, fact in self.facts.items() if name in facts for row in fact.rows(facts[name], facts)
        ]
