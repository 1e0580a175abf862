"""Context of nodes at run time, in addition to their input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol

from typing_extensions import TypeVar

from cases.records import Case
from nodes.core.recipe import AnySection, Recipe
from prompts import PromptSet, Variables
from ranking.encoding.vectors import TextVectors
from serving.protocol.messages import Message
from serving.protocol.model_name import Role
from serving.protocol.reply import ReplyFormat
from serving.protocol.request import Failure, Reply, Request
from serving.requests.client import ModelClient

T = TypeVar("T")
AnyRecipe = TypeVar("AnyRecipe", bound=Recipe, default=Recipe, covariant=True)


class AskSettings(Protocol):
    """Fields of a recipe's section for requests to a model."""

    @property
    def temperature(self) -> float:
        """Sampling temperature."""

    @property
    def max_tokens(self) -> int:
        """Token limit of one reply."""


@dataclass(frozen=True, slots=True)
class Tool(Generic[T]):
    """Something that is opened once for a run and used by nodes, such as a pool or a ranker.

    Declared next to the nodes that use it, with its type, and provided by a resource of the system.
    """

    name: str


@dataclass(frozen=True, kw_only=True)
class Context(Generic[AnyRecipe]):
    """The run-time context of every graph."""

    cases: Mapping[str, Case] = field(metadata={"description": "cases by id; the state refers to them"})
    client: ModelClient = field(metadata={"description": "the one way to ask a model"})
    prompts: PromptSet = field(metadata={"description": "the version of prompts that the recipe names"})
    settings: AnyRecipe = field(metadata={"description": "every value that nodes read"})
    tools: Mapping[str, Any] = field(
        default_factory=dict, metadata={"description": "tools opened by the system's resources, by name"}
    )

    def section(self, kind: type[AnySection]) -> AnySection:
        return self.settings.section(kind)

    def find(self, tool: Tool[T]) -> T | None:
        """A tool, None where the recipe wants none."""
        found: T | None = self.tools.get(tool.name)
        return found

    def tool(self, tool: Tool[T]) -> T:
        """A tool that the recipe cannot do without.

        Raises:
            LookupError: No resource of the system provides it.
        """
        found = self.find(tool)
        if found is None:
            raise LookupError(f"no resource of {self.settings.system!r} provides {tool.name!r}")
        return found

    def messages(
        self, prompt: str, variables: Variables, demonstrations: Sequence[Variables] = ()
    ) -> tuple[Message, ...]:
        turns = self.prompts[prompt].render(variables, demonstrations)
        return tuple(Message(role, text) for role, text in turns)

    def corrected(
        self, prompt: str, messages: tuple[Message, ...], reply: str, faults: Sequence[str]
    ) -> tuple[Message, ...]:
        """A conversation continued with a reply and its faults."""
        correction = self.prompts[prompt].render_correction("; ".join(faults))
        return (*messages, Message("assistant", reply), Message("user", correction))

    async def ask(
        self,
        role: Role,
        case_id: str,
        messages: tuple[Message, ...],
        reply: ReplyFormat[T],
        settings: AskSettings,
    ) -> Reply[T] | Failure:
        temperature, limit = settings.temperature, settings.max_tokens
        ask = Request(role, case_id, messages, reply, (0,), temperature, limit, self.settings.seed)
        (outcome,) = await self.client.ask(ask)
        return outcome


VECTORS: Tool[TextVectors] = Tool("vectors")
"""Compares sentences by meaning."""
