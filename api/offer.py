"""Choices that the operator offers to clients, and their limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from api.jobs import Record
from api.problems import Refused
from cases.definitions import Section
from graph.recipe import RecipeError, load_recipe, located, override
from nodes.core.recipe import Recipe
from runs.execute.assemble import Request
from serving.protocol.model_name import ModelName, Role, assign_roles


@dataclass(frozen=True, slots=True)
class Limits:
    """How much clients may ask for.

    Attributes:
        body: Bytes of a request.
        cases: Of one submission.
        queued: Runs of one user that wait for their turn.
        running: Runs at a time.
        per_minute: Requests of one user a minute.
        streams: Event streams at a time.
        streams_each: Event streams of one user at a time.
    """

    body: int = 16 << 20
    cases: int = 1000
    queued: int = 100
    running: int = 2
    per_minute: int = 600
    streams: int = 200
    streams_each: int = 20


@dataclass(frozen=True, slots=True)
class Choice:
    """A client's choice, completed and allowed."""

    system: str
    recipe: str
    model: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Offer:
    """Choices offered to clients.

    Attributes:
        models: Model strings by the name that clients see; the first is the default.
        recipes: Recipes by the name that clients see, a packaged one's or a file's; the first is the default.
        settings: Dotted fields of recipes whose values may be changed, with the words that they may have;
            numbers, booleans and null are free.
        places: Files and folders of resources, by the name of their option.
    """

    models: Mapping[str, str]
    recipes: Mapping[str, str]
    settings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    places: Mapping[str, Path] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        """Read every recipe and model string, so that a wrong one ends the start.

        Raises:
            RecipeError, ModelError: One cannot be used, or clients could name hosts and files by a setting.
        """
        for recipe in self._loaded().values():
            for name, words in self.settings.items():
                if not words and _takes_words_only(type(recipe), name):
                    raise RecipeError(
                        f"setting {name!r} may name hosts and files of this machine: list the words that"
                        f" clients may choose: --setting {name}=WORD,WORD"
                    )
        for name in self.models:
            self.assigned(name)

    def systems(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, recipe in self._loaded().items():
            found.setdefault(recipe.system, []).append(name)
        return found

    def assigned(self, model: str) -> dict[Role, ModelName]:
        """The model of every role.

        Raises:
            ModelError: The string is none.
        """
        return assign_roles([self.models[model]], {})

    def choose(
        self, system: str | None, recipe: str | None, model: str | None, settings: Mapping[str, Any]
    ) -> Choice:
        """Complete a client's choice with defaults.

        Raises:
            Refused: Something is not on offer, or a value is wrong.
        """
        systems = self.systems()
        if system is not None and system not in systems:
            raise _not_offered("system", system, systems)
        if recipe is not None and recipe not in self.recipes:
            raise _not_offered("recipe", recipe, self.recipes)
        if model is not None and model not in self.models:
            raise _not_offered("model", model, self.models)
        among = systems[system] if system is not None else [*self.recipes]
        chosen = recipe or (system if system in among else among[0])
        if chosen not in among:
            raise Refused(422, f"recipe {chosen!r} is not for system {system!r}", "/recipe")
        self._demand_allowed(settings)
        try:
            wanted = override(self._loaded()[chosen], settings, chosen)
        except RecipeError as error:
            raise Refused(422, str(error), "/settings") from None
        return Choice(wanted.system, chosen, model or next(iter(self.models)), dict(settings))

    def request(self, record: Record, cases: Path) -> Request:
        """The run of a job.

        Raises:
            Refused: The submitted choices are not offered any more.
            RecipeError: A recipe file has changed since, and does not take the settings.
        """
        if record.recipe not in self.recipes or record.model not in self.models:
            raise Refused(422, f"recipe {record.recipe!r} or model {record.model!r} is not on offer any more")
        self._demand_allowed(record.settings)
        origin = self.recipes[record.recipe]
        return Request(
            recipe=override(load_recipe(origin), record.settings, origin),
            recipe_origin=located(origin),
            inputs=(cases,),
            keys=(),
            models=self.assigned(record.model),
            overrides=record.settings,
            places=self.places,
        )

    def _demand_allowed(self, settings: Mapping[str, Any]) -> None:
        for name, value in settings.items():
            if name not in self.settings:
                known = ", ".join(sorted(self.settings)) or "none"
                raise Refused(
                    422, f"setting {name!r} may not be changed here; those that may: {known}", "/settings"
                )
            if isinstance(value, str) and value not in self.settings[name]:
                words = ", ".join(self.settings[name]) or "none"
                raise Refused(422, f"setting {name!r} may have these words here: {words}", "/settings")

    def _loaded(self) -> dict[str, Recipe]:
        return {name: load_recipe(origin) for name, origin in self.recipes.items()}


def _takes_words_only(kind: Any, name: str) -> bool:
    """Whether the values of a recipe field are only words, or sections that a word can name."""
    for part in name.split("."):
        found = kind.model_fields.get(part) if isinstance(kind, type) and issubclass(kind, Section) else None
        if found is None:
            return False
        kind = found.annotation
    kinds = get_args(kind) or (kind,)
    is_section = any(isinstance(one, type) and issubclass(one, Section) for one in kinds)
    return is_section or (str in kinds and not {int, float, bool} & {*kinds})


def _not_offered(what: str, given: str, known: Mapping[str, object]) -> Refused:
    return Refused(422, f"no {what} {given[:80]!r} here; those on offer: {', '.join(known)}", f"/{what}")
