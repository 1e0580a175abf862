"""Resources of a system other than models and prompts: opened, described, and compared on resume."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from cases.records import Case, InvalidCase
from nodes.core.recipe import Recipe, RecipeError

Record = Mapping[str, Any]
"""Record of a resource in `run.json`: builtins only."""


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """Request to open a resource.

    Attributes:
        recipe: The recipe that needs it.
        origin: Where the recipe came from, for messages.
        places: Files and folders that the user gave, by the name of their option.
        running: The cases of the run, read only by what must not show them.
        notify: Called with a line on what takes long.
    """

    recipe: Recipe
    origin: str
    places: Mapping[str, Path] = field(default_factory=dict)
    running: Iterable[Case | InvalidCase] = ()
    notify: Callable[[str], None] = lambda _: None

    def refuse(self, fault: str) -> RecipeError:
        return RecipeError(f"recipe {self.origin}: {fault}")


@dataclass(frozen=True, slots=True)
class Opened:
    """A resource made ready.

    Attributes:
        tools: Tools for the context of nodes, by name.
        records: Records for the run, by name.
    """

    tools: Mapping[str, Any] = field(default_factory=dict)
    records: Mapping[str, Record] = field(default_factory=dict)


class Resource(ABC):
    """Something that nodes of a system need.

    Attributes:
        places: Options that say where it is, such as `corpus` for `--corpus`.
        compared: Fields of its records, by the name of the record, that have to be the same on resume.
    """

    places: ClassVar[tuple[str, ...]] = ()
    compared: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    @abstractmethod
    def reads(self, recipe: Recipe) -> object:
        """The part of a recipe that determines the resource; None if it is not opened."""

    @abstractmethod
    async def open(self, request: ResourceRequest) -> Opened:
        """Find it, open it, and hold it against the recipe. Called only where the recipe wants it.

        Raises:
            RecipeError: It is not there, or does not fit the recipe.
            InputError, ModelError, RankerError, WeightsError: It cannot be used.
        """

    def needs(self, place: str, recipe: Recipe) -> str:
        """Error for a path that the recipe does not use."""
        return f"the graph {recipe.system!r} uses no {place}; leave --{place} out"

    def recorded_places(self, records: Mapping[str, Record], recipe: Recipe) -> dict[str, Path]:
        """Recorded paths by option, only those that the recipe reads."""
        return {}


def used_places(resources: Iterable[Resource], recipe: Recipe) -> frozenset[str]:
    """The options of places that a recipe has a use for."""
    return frozenset(
        place for resource in resources if resource.reads(recipe) is not None for place in resource.places
    )


async def open_resources(
    resources: Iterable[Resource], request: ResourceRequest, shared: Mapping[Resource, Opened] | None = None
) -> dict[Resource, Opened]:
    """Open the recipe's resources.

    Args:
        resources: The system's resources.
        request: The request to open them.
        shared: Already opened ones, which are reused.

    Raises:
        RecipeError: A place is given that nothing uses, and what `Resource.open` raises.
    """
    opened: dict[Resource, Opened] = {}
    unused = dict(request.places)
    for resource in resources:
        wanted = resource.reads(request.recipe) is not None
        for place in resource.places:
            if place in unused and not wanted:
                raise request.refuse(resource.needs(place, request.recipe))
            unused.pop(place, None)
        if wanted:
            known = (shared or {}).get(resource)
            opened[resource] = known if known is not None else await resource.open(request)
    if unused:
        place = next(iter(unused))
        raise request.refuse(f"the graph {request.recipe.system!r} uses no {place}; leave --{place} out")
    return opened
