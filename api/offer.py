"""What the operator lets clients choose, and how much of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from api.jobs import Record
from api.problems import Refused
from graph.recipe import RecipeError, load_recipe, override
from nodes.core.recipe import Recipe
from runs.assemble import Request
from serving.model_name import ModelName, Role, assign_roles


@dataclass(frozen=True, slots=True)
class Limits:
    """How much clients may ask for.

    Attributes:
        body: Bytes of a request.
        cases: Of one submission.
        queued: Runs that wait for their turn.
        running: Runs at a time.
        per_minute: Requests of one user a minute.
        streams: Event streams at a time.
    """

    body: int = 16 << 20
    cases: int = 1000
    queued: int = 100
    running: int = 2
    per_minute: int = 600
    streams: int = 200


@dataclass(frozen=True, slots=True)
class Choice:
    """What a client has chosen, complete and allowed."""

    system: str
    recipe: str
    model: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Offer:
    """What clients may choose from.

    Attributes:
        models: Model strings by the name that clients see; the first is the default.
        recipes: Recipes by the name that clients see, a packaged one's or a file's; the first is the default.
        settings: Dotted fields of recipes whose values may be changed.
        places: Files, folders and URLs of resources, by the name of their option.
        limits: How much.
    """

    models: Mapping[str, str]
    recipes: Mapping[str, str]
    settings: frozenset[str] = frozenset()
    places: Mapping[str, Path | str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        """Read every recipe and model string, so that a wrong one ends the start.

        Raises:
            RecipeError, ModelError: One cannot be used.
        """
        self._loaded()
        for name in self.models:
            self.assigned(name)

    def systems(self) -> dict[str, list[str]]:
        """Names of the recipes of each system, in the order of the offer."""
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
        """Fill in what a client has left open.

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
        for name in settings:
            if name not in self.settings:
                known = ", ".join(sorted(self.settings)) or "none"
                raise Refused(
                    422, f"setting {name!r} may not be changed here; those that may: {known}", "/settings"
                )
        try:
            wanted = override(self._loaded()[chosen], settings, chosen)
        except RecipeError as error:
            raise Refused(422, str(error), "/settings") from None
        return Choice(wanted.system, chosen, model or next(iter(self.models)), dict(settings))

    def request(self, record: Record, cases: Path) -> Request:
        """The run of a job.

        Raises:
            Refused: What it was submitted with is not on offer any more.
            RecipeError: A recipe file has changed since, and does not take the settings.
        """
        if record.recipe not in self.recipes or record.model not in self.models:
            raise Refused(422, f"recipe {record.recipe!r} or model {record.model!r} is not on offer any more")
        origin = self.recipes[record.recipe]
        return Request(
            recipe=override(load_recipe(origin), record.settings, origin),
            recipe_origin=str(Path(origin).resolve()) if Path(origin).is_file() else origin,
            inputs=(cases,),
            keys=(),
            models=self.assigned(record.model),
            overrides=record.settings,
            places=self.places,
        )

    def _loaded(self) -> dict[str, Recipe]:
        return {name: load_recipe(origin) for name, origin in self.recipes.items()}


def _not_offered(what: str, given: str, known: Mapping[str, object]) -> Refused:
    return Refused(422, f"no {what} {given[:80]!r} here; those on offer: {', '.join(known)}", f"/{what}")
