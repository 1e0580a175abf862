"""Recipes as seen by nodes: sections of values, each declared next to the nodes that read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from cases.definitions import Section, values_sha256
from serving.protocol.model_name import FOLLOWED, ROLES, Role
from serving.protocol.thinking import Effort

AnySection = TypeVar("AnySection", bound="RecipeSection")


class RecipeError(Exception):
    """A recipe that cannot be used, in one line that names file and field."""


class RecipeSection(Section):
    """Values of a recipe that belong together.

    Attributes:
        word_for: The field set by a single word in place of the section; None allows no word.
        options: Fields by the option of the command line that sets them.
        temperature: Sampling temperature of the model; 0 takes the likeliest token.
        max_tokens: Most tokens of a reply.
    """

    word_for: ClassVar[str | None] = None
    options: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _read_word(cls, values: Any) -> Any:
        return {cls.word_for: values} if cls.word_for is not None and isinstance(values, str) else values

    @property
    def unused_prompts(self) -> frozenset[str]:
        """Prompts of the nodes that read it, of which its values make no use."""
        return frozenset()

    def needs(self, option: str) -> str | None:
        """What else an option requires to take effect; None if nothing."""
        return None


def set_values(section: Section) -> dict[str, Any]:
    """The fields that differ from their defaults, for a file that says no more than it has to.

    Pydantic's own `exclude_defaults` also omits the field that names a rule's kind.
    """
    found: dict[str, Any] = {}
    dumped = section.model_dump(mode="json")
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, RecipeSection) and type(value) is field.annotation:
            if changed := set_values(value):
                found[name] = changed
        elif field.is_required() or value != field.get_default(call_default_factory=True):
            found[name] = dumped[name]
    return found


class Recipe(Section):
    """One YAML file: a system and every value that its nodes read. Each system adds its own sections.

    Attributes:
        system: Which graph it is for.
        prompts: Version of the prompts, or a folder of the user's.
        models: Models by role, where `--model` does not say otherwise.
        effort: How much models think before they write, by role or one word for all: off, minimal, low,
            medium, high or max. Where it is silent, as their providers have it.
        seed: Sent where the backend takes one.
        held_out: Ids of cases that never serve as demonstrations.
    """

    system: str
    prompts: str = "default"
    models: dict[Role, str] = Field(default_factory=dict)
    effort: dict[Role, Effort] = Field(default_factory=dict)
    seed: int = 42
    held_out: tuple[str, ...] = ()

    @field_validator("effort", mode="before")
    @classmethod
    def _one_word_for_all_roles(cls, value: Any) -> Any:
        # YAML reads a bare `off` as false.
        leading = (role for role in ROLES if role not in FOLLOWED)
        words = value if isinstance(value, Mapping) else dict.fromkeys(leading, value)
        return {role: "off" if word is False else word for role, word in words.items()}

    @model_serializer(mode="wrap")
    def _without_no_effort(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Recipes that leave the effort to the provider keep the hash that they had without the field."""
        dumped: dict[str, Any] = dump(self)
        if not self.effort:
            dumped.pop("effort", None)
        return dumped

    def effort_of(self, role: Role) -> Effort | None:
        """The effort of a role, or of the role that it follows."""
        return self.effort.get(role, self.effort.get(FOLLOWED.get(role, role)))

    def section(self, kind: type[AnySection]) -> AnySection:
        """The section of a kind, whatever this system calls it.

        Raises:
            LookupError: The system has none, so that its graph must not have a node that reads it.
        """
        found = self.find_section(kind)
        if found is None:
            raise LookupError(f"recipes of {self.system!r} have no {kind.__name__}")
        return found

    def find_section(self, kind: type[AnySection]) -> AnySection | None:
        """The section of a kind, None if the system has none.

        Raises:
            LookupError: Several sections are of the kind, and none is of exactly this type.
        """
        values = vars(self).values()
        found = [value for value in values if type(value) is kind]
        found = found or [value for value in values if isinstance(value, kind)]
        if len(found) > 1:
            raise LookupError(f"recipes of {self.system!r} have several sections of {kind.__name__}")
        return next(iter(found), None)

    @property
    def labels_evidence(self) -> bool:
        return True

    @property
    def answers(self) -> bool:
        return True

    @property
    def waits_for_people(self) -> bool:
        return False

    def without_waiting(self) -> Self:
        """The same recipe, for a run in which no person is asked."""
        return self

    @property
    def sha256(self) -> str:
        """Digest of all values, including defaults; comments and order do not count."""
        return values_sha256(self)
