"""Recipes as files: found, checked against the schema of their system, changed value by value."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from cases.definitions import DefinitionKind
from graph.system import System, UnknownSystem, find_system
from nodes.core.recipe import Recipe, RecipeError, RecipeSection
from nodes.evidence.label_evidence import LABEL_EVIDENCE, fault_of_prompts
from prompts import PromptSet

__all__ = (
    "FLAGSHIP",
    "RECIPES",
    "Recipe",
    "RecipeError",
    "check_prompts",
    "differing_fields",
    "load_recipe",
    "located",
    "make_recipe",
    "option_fields",
    "override",
    "unused_option",
)

FLAGSHIP = "tamu"
"""The recipe that is meant where none is named."""

RECIPES = DefinitionKind("recipe", "recipes", resources.files("graph").joinpath("recipes"), RecipeError)


def load_recipe(name_or_path: str) -> Recipe:
    """Load a packaged recipe by its name, or a file of the user's.

    Raises:
        RecipeError: It does not exist, is not YAML, or has an unknown field or a wrong value.
    """
    return make_recipe(RECIPES.read(name_or_path).values, name_or_path)


def located(name_or_path: str) -> str:
    """The unchanged name of a packaged recipe, or a file's absolute path, as runs record it."""
    return str(Path(name_or_path).resolve()) if Path(name_or_path).is_file() else name_or_path


def make_recipe(values: Mapping[str, Any], origin: str) -> Recipe:
    """Check values against the schema of the system that they name.

    Raises:
        RecipeError: Names the first wrong field, and the nearest known one for a typo.
    """
    name = values.get("system")
    if not isinstance(name, str):
        raise RECIPES.fault(origin, "system: name the system that it is for")
    try:
        schema = find_system(name).recipe
    except UnknownSystem as error:
        raise RECIPES.fault(origin, str(error)) from None
    return RECIPES.check(schema, values, origin)


def override(recipe: Recipe, changes: Mapping[str, Any], origin: str) -> Recipe:
    """A recipe with some values replaced.

    Args:
        recipe: Where all other values come from.
        changes: New values by dotted field, such as `evidence.votes`.
        origin: Where the recipe came from, for messages.

    Raises:
        RecipeError: A new value is wrong, or contradicts one of the recipe.
    """
    if not changes:
        return recipe
    named = ", ".join(f"{field} = {value}" for field, value in changes.items())
    whole = {_whole_field(recipe, field, value): value for field, value in changes.items()}
    return RECIPES.override(recipe, whole, f"{origin} with {named}")


def _whole_field(recipe: Recipe, field: str, value: object) -> str:
    """A word instead of a section: alone it would put all other fields back to their defaults."""
    section = getattr(recipe, field, None)
    if isinstance(value, str) and isinstance(section, RecipeSection) and section.word_for is not None:
        return f"{field}.{section.word_for}"
    return field


def option_fields(schema: type[Recipe]) -> dict[str, str]:
    """Dotted fields by the option of the command line that sets them, as sections declare it."""
    return {
        option: f"{name}.{field}"
        for name, info in schema.model_fields.items()
        if isinstance(info.annotation, type) and issubclass(info.annotation, RecipeSection)
        for option, field in info.annotation.options.items()
    }


def unused_option(recipe: Recipe, option: str) -> str | None:
    """What else an option requires to take effect with a recipe; None if nothing."""
    sections = (getattr(recipe, name) for name in type(recipe).model_fields)
    needs = (
        one.needs(option) for one in sections if isinstance(one, RecipeSection) and option in one.options
    )
    return next((need for need in needs if need is not None), None)


def check_prompts(system: System, recipe: Recipe, prompts: PromptSet, origin: str) -> None:
    """Hold a recipe against its prompts.

    Raises:
        RecipeError: Its prompts cannot ask for votes in its form.
    """
    if LABEL_EVIDENCE in system.nodes and (fault := fault_of_prompts(recipe, prompts)) is not None:
        raise RecipeError(f"recipe {origin}: {fault}")


def differing_fields(one: dict[str, Any], other: dict[str, Any], prefix: str = "") -> list[str]:
    """Dotted names of the fields in which two dumped recipes differ."""
    names = []
    for key in sorted({*one, *other}):
        first, second = one.get(key), other.get(key)
        if isinstance(first, dict) and isinstance(second, dict):
            names += differing_fields(first, second, f"{prefix}{key}.")
        elif first != second:
            names.append(f"{prefix}{key}")
    return names
