"""What a search chooses from: instructions, demonstrations, the form of a vote's reply, reflection.

Which fields there are, and the values that they take, come from the settings of the system's own recipe.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from evals.optimisation.given import (
    REFLECTION,
    REPLY,
    Form,
    Given,
    Value,
    evidence_only,
    literal_values,
    own_first,
    section_name,
    value_at,
)
from evals.optimisation.instructions import Instruction, write_prompts
from graph.recipe import Recipe, check_prompts, differing_fields, override
from nodes.evidence.reflect_on_labels import REFLECT_ON_LABELS
from nodes.evidence.settings import EvidenceSettings
from prompts import load_prompts
from retrieval.pools.pool import DemonstrationPool

Choices = Mapping[str, Value]
"""A value for each dimension that applies."""

AS_GIVEN = "as given"
COUNTS = (0, 1, 2, 3, 5)
"""Numbers of demonstrations, beside the recipe's own."""

_INSTRUCTION = "instruction of "
_COUNT, _CHOSEN, _ORDER = "demonstrations", "chosen", "order"


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
class Candidate:
    """A recipe to run.

    Attributes:
        recipe: As it is searched: it goes as far as evidence.
        overrides: In what it differs from the given recipe's file.
    """

    choices: Choices
    recipe: Recipe
    overrides: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Space:
    """All candidates.

    Attributes:
        given: The recipe that they differ from.
        forms: Of reply, by name.
        instructions: The present ones, with variants of each.
        orders: By the name of a choice of demonstrations, the ids to show, the first of them first.
        held_out: Ids that no candidate shows, beside those of the recipe.
        folder: Where prompt folders are written.
        dimensions: In the order of choosing.
    """

    given: Given
    forms: Mapping[str, Form]
    instructions: Mapping[str, tuple[Instruction, Sequence[str]]]
    orders: Mapping[str, Sequence[str]]
    held_out: tuple[str, ...]
    folder: Path
    dimensions: tuple[Dimension, ...]

    @property
    def size(self) -> int:
        """How many candidates there are."""
        return sum(1 for _ in self._all(0, {}))

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

    def has_other_form(self, choices: Choices) -> bool:
        """Whether replies have another form than those of the given recipe."""
        return choices[REPLY] != self.own[REPLY]

    def candidate(self, choices: Choices) -> Candidate:
        """The recipe of some choices; writes the folder of its prompts where they differ.

        Raises:
            RecipeError: The values contradict one another.
            InputError: The folder cannot be written.
        """
        return self._made(self.changes(choices), choices, evidence_only(self.given.loaded))

    def result(self, choices: Choices, folder: Path) -> Recipe:
        """The recipe that the user gets: it goes as far as the given one.

        Args:
            choices: Of the best candidate.
            folder: Where its prompts are written, if they differ from the given recipe's.

        Raises:
            RecipeError: The values contradict one another.
            InputError: The folder cannot be written.
        """
        return self._made(self.changes(choices, folder), choices, {}).recipe

    def changes(self, choices: Choices, folder: Path | None = None) -> dict[str, Any]:
        """Values by dotted field in which the choices differ from the given recipe."""
        own, section = self.own, section_name(self.given.loaded, EvidenceSettings)
        changed = dict(self.forms[str(choices[REPLY])].changes)
        for name in (_COUNT, _ORDER, REFLECTION):
            if name in choices and choices[name] != own.get(name):
                changed[f"{section}.{name}"] = choices[name]
        chosen = str(choices.get(_CHOSEN, AS_GIVEN))
        if chosen != AS_GIVEN:
            shown = self.orders[chosen][: _count(choices)]
            changed[f"{section}.demonstrations_from"] = list(shown)
        if self.held_out:
            changed["held_out"] = [*self.given.loaded.held_out, *self.held_out]
        variants = {
            name: int(str(choices[_INSTRUCTION + name]).partition(" ")[2])
            for name in self.instructions
            if choices.get(_INSTRUCTION + name, AS_GIVEN) != AS_GIVEN
        }
        if variants:
            place = folder or self.folder / "+".join(f"{name}-{n}" for name, n in variants.items())
            files = {
                name: self.instructions[name][0].replaced(self._variant(name, n))
                for name, n in variants.items()
            }
            write_prompts(place, self.given.loaded.prompts, files)
            # Runs and the recipe are to find them from any folder.
            changed["prompts"] = str(place.resolve())
        return changed

    def _variant(self, name: str, number: int) -> str:
        return self.instructions[name][1][number - 1]

    def _made(self, changes: Mapping[str, Any], choices: Choices, further: Mapping[str, Any]) -> Candidate:
        loaded, origin = self.given.loaded, self.given.origin
        recipe = override(loaded, {**changes, **further}, origin)
        prompts = load_prompts(recipe.prompts, self.given.system.contracts)
        check_prompts(self.given.system, recipe, prompts, origin)
        before, after = loaded.model_dump(mode="json"), recipe.model_dump(mode="json")
        names = differing_fields(before, after)
        return Candidate(choices, recipe, {name: value_at(after, name) for name in names})

    def _all(self, place: int, chosen: Choices) -> Iterable[Choices]:
        if place == len(self.dimensions):
            yield chosen
            return
        dimension = self.dimensions[place]
        if not dimension.applies(chosen):
            yield from self._all(place + 1, chosen)
            return
        for option in dimension.options:
            yield from self._all(place + 1, {**chosen, dimension.name: option})


def make_space(
    given: Given,
    variants: Mapping[str, Sequence[str]],
    orders: Mapping[str, Sequence[str]],
    held_out: tuple[str, ...],
    folder: Path,
    most: int = 0,
) -> Space:
    """All that can be chosen for a recipe.

    Args:
        given: The recipe.
        variants: Further instructions by the name of their prompt.
        orders: Drawn orders of demonstrations by name.
        held_out: Ids that are never shown, beside those of the recipe.
        folder: Of the prompts of candidates.
        most: Demonstrations that there are to show; each drawn order has as many.

    Raises:
        OptimisationError: The recipe labels no evidence by a model.
    """
    evidence, forms = given.evidence, given.forms()
    present = {one.prompt.name: one for one in given.instructions()}
    reflecting = {contract.name for contract in REFLECT_ON_LABELS.prompts}

    def form(chosen: Choices) -> Form:
        return forms[str(chosen[REPLY])]

    dimensions = [
        Dimension(REPLY, tuple(forms)),
        Dimension(
            REFLECTION,
            own_first(evidence.reflection, (True, False)),
            lambda chosen: REFLECTION not in form(chosen).settles,
        ),
    ]
    if most:
        dimensions += [
            Dimension(
                _COUNT,
                own_first(evidence.demonstrations, [count for count in COUNTS if count <= most]),
                lambda chosen: _COUNT not in form(chosen).settles,
            ),
            # A count beyond what a drawn order has would show fewer than it says.
            Dimension(
                _CHOSEN, (AS_GIVEN, *orders), lambda chosen: bool(orders) and 0 < _count(chosen) <= most
            ),
            Dimension(
                _ORDER, own_first(evidence.order, literal_values(_ORDER)), lambda chosen: _count(chosen) > 1
            ),
        ]
    for name, texts in variants.items():
        options = (AS_GIVEN, *(f"variant {number}" for number in range(1, len(texts) + 1)))
        if len(options) > 1:
            dimensions.append(
                Dimension(_INSTRUCTION + name, options, partial(_is_shown, name, name in reflecting, forms))
            )
    return Space(
        given,
        forms,
        {name: (present[name], texts) for name, texts in variants.items()},
        orders,
        held_out,
        folder,
        tuple(dimensions),
    )


def _count(chosen: Choices) -> int:
    return int(chosen.get(_COUNT, 0))


def _is_shown(prompt: str, reflecting: bool, forms: Mapping[str, Form], chosen: Choices) -> bool:
    """Whether a candidate fills a prompt."""
    used = prompt in forms[str(chosen[REPLY])].prompts
    return used and (bool(chosen.get(REFLECTION)) or not reflecting)


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
