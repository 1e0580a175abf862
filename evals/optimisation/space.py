"""Search space: instructions, demonstrations, the form of a vote's reply, reflection.

Which values there are comes from the settings of the system's own recipe. A choice is the name of a value:
files and tables show it, and `Space` maps it to its value.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from evals.errors import OptimisationError
from evals.optimisation.instructions import Instruction, find_instruction, write_prompts
from graph.recipe import Recipe, check_prompts, differing_fields, override
from graph.system import System, find_system
from nodes.answer.align_answer import AlignmentSettings
from nodes.core.records import ReplyFormName
from nodes.evidence.label_evidence import fault_of_prompts
from nodes.evidence.reflect_on_labels import REFLECT_ON_LABELS
from nodes.evidence.settings import AUTO, POINTWISE, POINTWISE_VALUES, EvidenceSettings
from nodes.question.interpret_question import QuestionSettings
from prompts import PromptSet, load_prompts
from retrieval.pools.pool import DemonstrationPool

Value = str | int | bool
Choices = Mapping[str, Value]
"""A value for each dimension that applies."""

AS_GIVEN = "as given"
COUNTS = (0, 1, 2, 3, 5)
"""Numbers of demonstrations, in addition to the recipe's."""

REPLY, REFLECTION, COUNT, ORDER = "reply", "reflection", "demonstrations", "order"
"""Fields of the settings of evidence."""

_INSTRUCTION = "instruction of "
_CHOSEN = "chosen"


@dataclass(frozen=True, slots=True)
class Dimension:
    """One choice.

    Attributes:
        options: The recipe's own first.
        applies: Whether it changes anything, given the earlier choices.
    """

    name: str
    options: tuple[Value, ...]
    applies: Callable[[Choices], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class Given:
    """The recipe that is to become better, with the name or file it comes from."""

    origin: str
    loaded: Recipe

    @property
    def system(self) -> System:
        return find_system(self.loaded.system)

    @property
    def prompts(self) -> PromptSet:
        return load_prompts(self.loaded.prompts, self.system.contracts)

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

    def forms(self) -> dict[str, dict[str, Any]]:
        """Forms of reply that its values and prompts allow, its own first, with the fields they change."""
        evidence, prompts = self.evidence, self.prompts
        found: dict[str, dict[str, Any]] = {evidence.reply: {}}
        for name in get_args(ReplyFormName):
            settled: dict[str, Any] = {REPLY: name}
            if name == POINTWISE:
                # It is asked once, so T is a majority of one vote and the ranker's.
                allowed = evidence.minimum_votes in (None, 1)
                settled |= {**POINTWISE_VALUES, "threshold": (1 + evidence.ranker_weight) // 2 + 1}
            else:
                allowed = evidence.model_cutoff is None
            if name in (AUTO, evidence.reply) or not allowed:
                continue
            changes = self.of_evidence(settled)
            recipe = override(self.loaded, changes, self.origin)
            if fault_of_prompts(recipe, prompts) is None:
                found[name] = changes
        return found

    def of_evidence(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values of the section of evidence by dotted field."""
        section = _section_name(self.loaded, EvidenceSettings)
        return {f"{section}.{name}": value for name, value in values.items()}

    def filled_prompts(self) -> dict[str, frozenset[str]]:
        """Names of the prompts that each form of reply fills."""
        return {
            form: self.system.used_prompts(override(self.loaded, changes, self.origin))
            for form, changes in self.forms().items()
        }

    def instructions(self) -> list[Instruction]:
        """Those of the prompts that label evidence, in whatever form."""
        filled = frozenset[str]().union(*self.filled_prompts().values())
        prompts = self.prompts
        found = [
            find_instruction(prompts[contract.name])
            for node in self.system.nodes
            if EvidenceSettings in node.sections
            for contract in node.prompts
            if contract.name in filled
        ]
        return [one for one in found if one is not None]


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


def _evidence_only(recipe: Recipe) -> dict[str, Any]:
    """Values with which a recipe only finds evidence and never pauses a case."""
    changed = differences(recipe, recipe.without_waiting()) | {"stop_after": "evidence"}
    changed[f"{_section_name(recipe, AlignmentSettings)}.answer"] = "none"
    if recipe.section(QuestionSettings).interpret == "always":
        # Those of cases that have a question of their own are for submissions alone.
        changed[f"{_section_name(recipe, QuestionSettings)}.interpret"] = "missing"
    return changed


def _section_name(recipe: Recipe, kind: type[object]) -> str:
    return next(name for name in type(recipe).model_fields if isinstance(getattr(recipe, name), kind))


class Space:
    """All candidates.

    Attributes:
        present: The present instructions, by the name of their prompt.
        variants: Other instructions by prompt and name.
        draws: Ids of demonstrations to show, the first of them first, by name.
        dimensions: In the order of choosing.
        own: The choices of the given recipe.
    """

    def __init__(
        self,
        given: Given,
        variants: Mapping[str, Sequence[str]],
        draws: Mapping[str, Sequence[str]],
        held_out: tuple[str, ...],
        folder: Path,
        most: int = 0,
    ) -> None:
        """All that can be chosen for a recipe, with instructions by prompt and demonstrations by draw.

        Held-out ids are never shown, as those of the recipe. The folder is for prompts of candidates. There
        are `most` demonstrations to show; each draw has as many.

        Raises:
            OptimisationError: The recipe labels no evidence by a model.
        """
        self.given = given
        self._forms = given.forms()
        self.present = {one.prompt.name: one for one in given.instructions()}
        self.variants = {
            name: {f"variant {number}": text for number, text in enumerate(texts, 1)}
            for name, texts in variants.items()
        }
        self.draws = draws
        self.dimensions = self._dimensions(most)
        self.own: Choices = {}
        for dimension in self.dimensions:
            if dimension.applies(self.own):
                self.own = {**self.own, dimension.name: dimension.options[0]}
        self._held_out = held_out
        self._folder = folder

    def _dimensions(self, most: int) -> list[Dimension]:
        evidence, filled = self.given.evidence, self.given.filled_prompts()
        of_reflection = {contract.name for contract in REFLECT_ON_LABELS.prompts}

        def draws_votes(chosen: Choices) -> bool:
            return chosen[REPLY] != POINTWISE

        def fills(prompt: str) -> Callable[[Choices], bool]:
            return lambda chosen: (
                prompt in filled[str(chosen[REPLY])]
                and (bool(chosen.get(REFLECTION)) or prompt not in of_reflection)
            )

        found = [
            Dimension(REPLY, tuple(filled)),
            Dimension(REFLECTION, (evidence.reflection, not evidence.reflection), draws_votes),
        ]
        if most:
            counts = _own_first(evidence.demonstrations, [count for count in COUNTS if count <= most])
            found.append(Dimension(COUNT, counts, draws_votes))
            if self.draws:
                # A count above the size of a draw would show fewer than it says.
                found.append(
                    Dimension(_CHOSEN, (AS_GIVEN, *self.draws), lambda chosen: 0 < _count(chosen) <= most)
                )
            orders = _own_first(evidence.order, get_args(EvidenceSettings.model_fields[ORDER].annotation))
            found.append(Dimension(ORDER, orders, lambda chosen: _count(chosen) > 1))
        return found + [
            Dimension(_INSTRUCTION + name, (AS_GIVEN, *texts), fills(name))
            for name, texts in self.variants.items()
            if texts
        ]

    def in_words(self, choices: Choices) -> str:
        """Differences between a candidate and the given recipe."""
        first = {dimension.name: dimension.options[0] for dimension in self.dimensions}
        differing = [f"{name} {value}" for name, value in choices.items() if value != first[name]]
        return ", ".join(differing) or AS_GIVEN

    def candidate(self, choices: Choices) -> Recipe:
        """The recipe of some choices as it is searched: as far as evidence, its prompts among the variants.

        Raises:
            RecipeError: The values contradict one another.
            InputError: The folder of its prompts cannot be written.
        """
        return self._made({**self._changes(choices, None), **_evidence_only(self.given.loaded)})

    def result(self, choices: Choices, folder: Path) -> Recipe:
        """The recipe that the user gets: as far as the given one, its own prompts, if any, in a folder."""
        return self._made(self._changes(choices, folder))

    def _changes(self, choices: Choices, folder: Path | None) -> dict[str, Any]:
        """Values by dotted field in which the choices differ from the given recipe."""
        loaded = self.given.loaded
        fields = {
            name: choices[name]
            for name in (COUNT, ORDER, REFLECTION)
            if name in choices and choices[name] != self.own.get(name)
        }
        changed = self._forms[str(choices[REPLY])] | self.given.of_evidence(fields)
        if (ids := self.draws.get(str(choices.get(_CHOSEN)))) is not None:
            changed |= self.given.of_evidence({"demonstrations_from": list(ids[: _count(choices)])})
        if self._held_out:
            changed["held_out"] = [*loaded.held_out, *self._held_out]
        chosen = {
            name: str(choices[_INSTRUCTION + name])
            for name in self.variants
            if choices.get(_INSTRUCTION + name, AS_GIVEN) != AS_GIVEN
        }
        if chosen:
            numbers = (f"{name}-{variant.removeprefix('variant ')}" for name, variant in chosen.items())
            place = folder or self._folder / "+".join(numbers)
            texts = {name: self.variants[name][variant] for name, variant in chosen.items()}
            files = {name: self.present[name].replaced(text) for name, text in texts.items()}
            write_prompts(place, loaded.prompts, files)
            # Runs and the recipe are to find them from any folder.
            changed["prompts"] = str(place.resolve())
        return changed

    def _made(self, changes: Mapping[str, Any]) -> Recipe:
        recipe = override(self.given.loaded, changes, self.given.origin)
        prompts = load_prompts(recipe.prompts, self.given.system.contracts)
        check_prompts(self.given.system, recipe, prompts, self.given.origin)
        return recipe


def _own_first(own: Value, options: Sequence[Value]) -> tuple[Value, ...]:
    return (own, *(option for option in options if option != own))


def _count(chosen: Choices) -> int:
    return int(chosen.get(COUNT, 0))


def drawn_orders(
    pool: DemonstrationPool, excluded: Iterable[str], count: int, seed: int
) -> dict[str, list[str]]:
    """Orders of labelled cases of a pool by name; the first ids of each are a choice of demonstrations."""
    left_out = frozenset(excluded)
    ids = [one.case_id for one in pool.neighbours() if one.case_id not in left_out]
    # Draws for a search, nothing secret.
    draw = random.Random(seed)  # noqa: S311 - no secret
    orders = {}
    for number in range(1, count + 1):
        draw.shuffle(ids)
        labelled = (id_ for id_ in ids if pool.case(id_).gold.labels)
        if chosen := list(islice(labelled, max(COUNTS))):
            orders[f"draw {number}"] = chosen
    return orders
