"""What a search chooses from: instructions, demonstrations, the form of a vote's reply, reflection.

Which values there are comes from the settings of the system's own recipe. A choice is the name of a value:
files and tables show it, and `Space` has what it stands for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from evals.optimisation.errors import OptimisationError
from evals.optimisation.instructions import Instruction, find_instruction, write_prompts
from graph.recipe import Recipe, check_prompts, differing_fields, override
from graph.system import System, find_system
from nodes.answer.align_answer import AlignmentSettings
from nodes.core.records import ReplyFormName
from nodes.evidence.reflect_on_labels import REFLECT_ON_LABELS
from nodes.evidence.settings import AUTO, POINTWISE, POINTWISE_VALUES, EvidenceSettings
from nodes.question.interpret_question import QuestionSettings
from prompts import load_prompts
from retrieval.pools.pool import DemonstrationPool

Value = str | int | bool
Choices = Mapping[str, Value]
"""A value for each dimension that applies."""

AS_GIVEN = "as given"
COUNTS = (0, 1, 2, 3, 5)
"""Numbers of demonstrations, beside the recipe's own."""

REPLY, REFLECTION, COUNT, ORDER = "reply", "reflection", "demonstrations", "order"
"""Fields of the settings of evidence."""

_INSTRUCTION = "instruction of "
_CHOSEN = "chosen"


@dataclass(frozen=True, slots=True)
class Dimension:
    """One choice.

    Attributes:
        options: The recipe's own first.
        applies: Whether it changes anything, by what was chosen before.
    """

    name: str
    options: tuple[Value, ...]
    applies: Callable[[Choices], bool] = lambda _: True


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
        if found is None:
            fault = f"system {self.loaded.system!r} has no stage in which votes label evidence"
        elif not self.loaded.labels_evidence:
            raise OptimisationError(
                f"recipe {self.origin}: it stops before evidence; set stop_after to 'evidence'"
            )
        elif not found.asks_model:
            fault = f"evidence.voters is {found.voters!r}, so no prompt labels evidence"
        else:
            return found
        raise OptimisationError(f"recipe {self.origin}: {fault}, so there is nothing to search")

    def forms(self) -> dict[str, Form]:
        """The forms of reply that its values and its prompts allow, its own first."""
        evidence, section = self.evidence, section_name(self.loaded, EvidenceSettings)
        prompts = load_prompts(self.loaded.prompts, self.system.contracts)
        found: dict[str, Form] = {}
        for name in own_first(evidence.reply, [one for one in get_args(ReplyFormName) if one != AUTO]):
            if name != evidence.reply and not _allows(evidence, name):
                continue
            settles = _settled(evidence) if name == POINTWISE else {}
            other = name != evidence.reply
            changes = {f"{section}.{one}": value for one, value in ({REPLY: name} | settles).items() if other}
            recipe = override(self.loaded, changes, self.origin)
            if other and any(node.check(recipe, prompts) is not None for node in self.system.nodes):
                continue
            found[str(name)] = Form(settles, changes, self.system.used_prompts(recipe))
        return found

    def instructions(self) -> list[Instruction]:
        """Those of the prompts that label evidence, in whatever form."""
        loaded = load_prompts(self.loaded.prompts, self.system.contracts)
        used = frozenset(name for form in self.forms().values() for name in form.prompts)
        prompts = [
            loaded[contract.name]
            for node in self.system.nodes
            if EvidenceSettings in node.sections
            for contract in node.prompts
            if contract.name in used
        ]
        return [found for prompt in prompts if (found := find_instruction(prompt)) is not None]


def _allows(evidence: EvidenceSettings, form: Value) -> bool:
    """Whether the other values of a recipe go with a form of reply that is not its own."""
    if form == POINTWISE:
        return evidence.minimum_votes in (None, 1)
    return evidence.model_cutoff is None


def _settled(evidence: EvidenceSettings) -> dict[str, Any]:
    """What the form `pointwise` leaves no choice of; T is a majority."""
    return {**POINTWISE_VALUES, "threshold": (1 + evidence.ranker_weight) // 2 + 1}


def evidence_only(recipe: Recipe) -> dict[str, Any]:
    """Values with which a recipe asks for nothing but evidence, and lets no case wait."""
    changed = differences(recipe, recipe.without_waiting())
    if "stop_after" in type(recipe).model_fields:
        changed["stop_after"] = "evidence"
    if recipe.find_section(AlignmentSettings) is not None:
        changed[f"{section_name(recipe, AlignmentSettings)}.answer"] = "none"
    question = recipe.find_section(QuestionSettings)
    if question is not None and question.interpret == "always":
        # Those of cases that have a question of their own are for submissions alone.
        changed[f"{section_name(recipe, QuestionSettings)}.interpret"] = "missing"
    return changed


def differences(before: Recipe, after: Recipe) -> dict[str, Any]:
    """Values by dotted field in which a recipe differs from another."""
    dumped = after.model_dump(mode="json")
    changed = {}
    for name in differing_fields(before.model_dump(mode="json"), dumped):
        value: Any = dumped
        for part in name.split("."):
            value = value[part]
        changed[name] = value
    return changed


def section_name(recipe: Recipe, kind: type[object]) -> str:
    """The field of a recipe that holds a section of a kind."""
    return next(name for name in type(recipe).model_fields if isinstance(getattr(recipe, name), kind))


def own_first(own: Value, options: Sequence[Value]) -> tuple[Value, ...]:
    """The values of a field, that of the given recipe first."""
    return (own, *(option for option in options if option != own))


@dataclass(frozen=True, slots=True)
class Space:
    """All candidates.

    Attributes:
        given: The recipe that they differ from.
        forms: Of reply, by name.
        present: The present instructions, by the name of their prompt.
        variants: Other instructions by prompt and name.
        draws: Ids of demonstrations to show, the first of them first, by name.
        held_out: Ids that no candidate shows, beside those of the recipe.
        folder: Where prompt folders are written.
        dimensions: In the order of choosing.
    """

    given: Given
    forms: Mapping[str, Form]
    present: Mapping[str, Instruction]
    variants: Mapping[str, Mapping[str, str]]
    draws: Mapping[str, Sequence[str]]
    held_out: tuple[str, ...]
    folder: Path
    dimensions: tuple[Dimension, ...]

    @property
    def own(self) -> Choices:
        """The choices of the given recipe."""
        chosen: dict[str, Value] = {}
        for dimension in self.dimensions:
            if dimension.applies(chosen):
                chosen[dimension.name] = dimension.options[0]
        return chosen

    def in_words(self, choices: Choices) -> str:
        """In what a candidate differs from the given recipe."""
        first = {dimension.name: dimension.options[0] for dimension in self.dimensions}
        differing = [f"{name} {value}" for name, value in choices.items() if value != first[name]]
        return ", ".join(differing) or AS_GIVEN

    def candidate(self, choices: Choices) -> Recipe:
        """The recipe of some choices as it is searched: it goes as far as evidence.

        Writes the folder of its prompts where they differ.

        Raises:
            RecipeError: The values contradict one another.
            InputError: The folder cannot be written.
        """
        return self._made({**self.changes(choices), **evidence_only(self.given.loaded)})

    def result(self, choices: Choices, folder: Path) -> Recipe:
        """The recipe that the user gets: it goes as far as the given one.

        Args:
            choices: Of the best candidate.
            folder: Where its prompts are written, if they differ from the given recipe's.

        Raises:
            RecipeError: The values contradict one another.
            InputError: The folder cannot be written.
        """
        return self._made(self.changes(choices, folder))

    def changes(self, choices: Choices, folder: Path | None = None) -> dict[str, Any]:
        """Values by dotted field in which the choices differ from the given recipe."""
        loaded, own = self.given.loaded, self.own
        section = section_name(loaded, EvidenceSettings)
        changed = dict(self.forms[str(choices[REPLY])].changes)
        for name in (COUNT, ORDER, REFLECTION):
            if name in choices and choices[name] != own.get(name):
                changed[f"{section}.{name}"] = choices[name]
        if (ids := self.draws.get(str(choices.get(_CHOSEN)))) is not None:
            changed[f"{section}.demonstrations_from"] = list(ids[: _count(choices)])
        if self.held_out:
            changed["held_out"] = [*loaded.held_out, *self.held_out]
        chosen = {
            name: choice
            for name, variants in self.variants.items()
            if (choice := str(choices.get(_INSTRUCTION + name))) in variants
        }
        if chosen:
            numbers = (f"{name}-{[*self.variants[name]].index(one) + 1}" for name, one in chosen.items())
            place = folder or self.folder / "+".join(numbers)
            files = {
                name: self.present[name].replaced(self.variants[name][one]) for name, one in chosen.items()
            }
            write_prompts(place, loaded.prompts, files)
            # Runs and the recipe are to find them from any folder.
            changed["prompts"] = str(place.resolve())
        return changed

    def _made(self, changes: Mapping[str, Any]) -> Recipe:
        recipe = override(self.given.loaded, changes, self.given.origin)
        prompts = load_prompts(recipe.prompts, self.given.system.contracts)
        check_prompts(self.given.system, recipe, prompts, self.given.origin)
        return recipe


def make_space(
    given: Given,
    variants: Mapping[str, Sequence[str]],
    draws: Mapping[str, Sequence[str]],
    held_out: tuple[str, ...],
    folder: Path,
    most: int = 0,
) -> Space:
    """All that can be chosen for a recipe.

    Args:
        given: The recipe.
        variants: Further instructions by the name of their prompt.
        draws: Ids of demonstrations by the name of their draw.
        held_out: Ids that are never shown, beside those of the recipe.
        folder: Of the prompts of candidates.
        most: Demonstrations that there are to show; each draw has as many.

    Raises:
        OptimisationError: The recipe labels no evidence by a model.
    """
    evidence, forms = given.evidence, given.forms()
    reflecting = {contract.name for contract in REFLECT_ON_LABELS.prompts}
    named = {
        name: {f"variant {number}": text for number, text in enumerate(texts, 1)}
        for name, texts in variants.items()
    }

    def open_in_form(field: str) -> Callable[[Choices], bool]:
        return lambda chosen: field not in forms[str(chosen[REPLY])].settles

    def shown(prompt: str) -> Callable[[Choices], bool]:
        """Whether a candidate fills the prompt."""
        return lambda chosen: (
            prompt in forms[str(chosen[REPLY])].prompts
            and (bool(chosen.get(REFLECTION)) or prompt not in reflecting)
        )

    dimensions = [
        Dimension(REPLY, tuple(forms)),
        Dimension(REFLECTION, own_first(evidence.reflection, (True, False)), open_in_form(REFLECTION)),
    ]
    if most:
        counts = own_first(evidence.demonstrations, [count for count in COUNTS if count <= most])
        orders = get_args(EvidenceSettings.model_fields[ORDER].annotation)
        dimensions += [
            Dimension(COUNT, counts, open_in_form(COUNT)),
            # A count beyond what a draw has would show fewer than it says.
            Dimension(_CHOSEN, (AS_GIVEN, *draws), lambda chosen: bool(draws) and 0 < _count(chosen) <= most),
            Dimension(ORDER, own_first(evidence.order, orders), lambda chosen: _count(chosen) > 1),
        ]
    dimensions += [
        Dimension(_INSTRUCTION + name, (AS_GIVEN, *texts), shown(name))
        for name, texts in named.items()
        if texts
    ]
    present = {one.prompt.name: one for one in given.instructions()}
    return Space(given, forms, present, named, draws, held_out, folder, tuple(dimensions))


def _count(chosen: Choices) -> int:
    return int(chosen.get(COUNT, 0))


def drawn_orders(
    pool: DemonstrationPool, excluded: Iterable[str], count: int, seed: int
) -> dict[str, list[str]]:
    """Orders of labelled cases of a pool; the first ids of each are a choice of demonstrations.

    Args:
        pool: The pool.
        excluded: Ids that are never drawn.
        count: How many orders.
        seed: Of the draw.

    Returns:
        By name; none where the pool has no labelled case.
    """
    left_out = frozenset(excluded)
    ids = [one.case_id for one in pool.neighbours() if one.case_id not in left_out]
    # Draws for a search, nothing secret.
    draw = random.Random(seed)  # noqa: S311 - no secret
    orders = {}
    for number in range(1, count + 1):
        draw.shuffle(ids)
        labelled = (id_ for id_ in ids if pool.case(id_).gold.labels)
        chosen = [id_ for id_, _ in zip(labelled, range(max(COUNTS)), strict=False)]
        if chosen:
            orders[f"draw {number}"] = chosen
    return orders
