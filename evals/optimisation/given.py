"""The recipe that is to become better: what its system, its settings and its prompts leave to choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from evals.optimisation.errors import OptimisationError
from evals.optimisation.instructions import Instruction, find_instruction
from graph.recipe import Recipe, RecipeError, check_prompts, differing_fields, override
from graph.system import System, find_system
from nodes.answer.align_answer import AlignmentSettings
from nodes.evidence.settings import EvidenceSettings
from nodes.question.interpret_question import QuestionSettings
from prompts import load_prompts

Value = str | int | bool

REPLY, REFLECTION = "reply", "reflection"
"""Fields of the settings of evidence."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form of reply.

    Attributes:
        settles: Fields of the section that it leaves no choice of, with their values.
        changes: Values by dotted field in which a recipe with it differs from the given one.
        prompts: Those that a recipe with it fills.
    """

    settles: Mapping[str, Any]
    changes: Mapping[str, Any]
    prompts: frozenset[str]


@dataclass(frozen=True, slots=True)
class Given:
    """The recipe that is to become better.

    Attributes:
        origin: Name or file.
        loaded: As it is there.
    """

    origin: str
    loaded: Recipe

    @property
    def system(self) -> System:
        """Its system."""
        return find_system(self.loaded.system)

    @property
    def evidence(self) -> EvidenceSettings:
        """Its settings of evidence.

        Raises:
            OptimisationError: It has none, or no model is asked for evidence.
        """
        found = self.loaded.find_section(EvidenceSettings)
        if found is None or not self.loaded.labels_evidence:
            raise OptimisationError(
                f"recipe {self.origin}: system {self.loaded.system!r} has no stage in which votes label"
                " evidence, so there is nothing to search"
                if found is None
                else f"recipe {self.origin}: it stops before evidence; set stop_after to 'evidence'"
            )
        if not found.asks_model:
            raise OptimisationError(
                f"recipe {self.origin}: evidence.voters is {found.voters!r}, so no prompt labels evidence and"
                " there is nothing to search"
            )
        return found

    def forms(self) -> dict[str, Form]:
        """The forms of reply that its prompts and its other values allow, its own first."""
        section = section_name(self.loaded, EvidenceSettings)
        evidence = self.evidence
        kept = evidence.model_dump(mode="json", include={"voters", "ranker", "ranker_votes"})
        plain = type(evidence).model_validate(kept).model_dump(mode="json")
        found: dict[str, Form] = {}
        for name in map(str, own_first(evidence.reply, literal_values(REPLY))):
            try:
                formed = type(evidence).model_validate({**kept, REPLY: name}).model_dump(mode="json")
            except ValueError:
                continue
            settles = {one: value for one, value in formed.items() if value != plain[one] and one != REPLY}
            changes = {f"{section}.{REPLY}": name} if name != evidence.reply else {}
            if changes:
                changes |= {f"{section}.{one}": value for one, value in settles.items()}
            # Reflection may be what its prompts cannot ask for in this form.
            for further in ({}, {f"{section}.{REFLECTION}": False}):
                try:
                    recipe = override(self.loaded, {**changes, **further}, self.origin)
                    prompts = load_prompts(recipe.prompts, self.system.contracts)
                    check_prompts(self.system, recipe, prompts, self.origin)
                except RecipeError:
                    continue
                found[name] = Form(settles, changes, self.system.used_prompts(recipe))
                break
        return found

    def instructions(self) -> list[Instruction]:
        """Those of the prompts that label evidence, in whatever form."""
        loaded = load_prompts(self.loaded.prompts, self.system.contracts)
        used = frozenset(name for form in self.forms().values() for name in form.prompts)
        names = [
            contract.name
            for node in self.system.nodes
            if EvidenceSettings in node.sections
            for contract in node.prompts
            if contract.name in used
        ]
        return [found for name in names if (found := find_instruction(loaded[name])) is not None]


def evidence_only(recipe: Recipe) -> dict[str, Any]:
    """Values with which a recipe asks for nothing but evidence, and lets no case wait."""
    plain = recipe.without_waiting()
    before, after = recipe.model_dump(mode="json"), plain.model_dump(mode="json")
    changed = {name: value_at(after, name) for name in differing_fields(before, after)}
    if "stop_after" in type(recipe).model_fields:
        changed["stop_after"] = "evidence"
    if recipe.find_section(AlignmentSettings) is not None:
        changed[f"{section_name(recipe, AlignmentSettings)}.answer"] = "none"
    question = recipe.find_section(QuestionSettings)
    if question is not None and question.interpret == "always":
        # Those of cases that have a question of their own are for submissions alone.
        changed[f"{section_name(recipe, QuestionSettings)}.interpret"] = "missing"
    return changed


def section_name(recipe: Recipe, kind: type[object]) -> str:
    """The field of a recipe that holds a section of a kind."""
    return next(name for name in type(recipe).model_fields if isinstance(getattr(recipe, name), kind))


def own_first(own: Value, options: Sequence[Value]) -> tuple[Value, ...]:
    """The values of a field, that of the given recipe first."""
    return (own, *(option for option in options if option != own))


def literal_values(field: str) -> tuple[Value, ...]:
    """All values of a field of the settings of evidence."""
    annotation = EvidenceSettings.model_fields[field].annotation
    assert get_origin(annotation) is Literal, f"evidence.{field} takes no list of values"
    # `auto` is decided for a model before a run begins, so it is no choice of its own.
    return tuple(value for value in get_args(annotation) if value != "auto")


def value_at(values: Mapping[str, Any], field: str) -> Any:
    """The value of a dotted field in a dumped recipe."""
    found: Any = values
    for part in field.split("."):
        found = found[part]
    return found
