"""A recipe is one YAML file: a system and every value that its nodes read."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, Field, ValidationError

from nodes.core.settings import Settings
from prompts import PromptSet
from retrieval.embeddings import DEFAULT_EMBEDDING
from serving.model_name import Role


class RecipeError(Exception):
    """A recipe that cannot be used, in one line that names file and field."""


class Recipe(Settings):
    """A recipe.

    Attributes:
        system: Which graph it is for.
        prompts: Version of the prompts, or a folder of the user's.
        embedding: What demonstrations are compared with.
        models: Models by role, where `--model` does not say otherwise.
    """

    system: str
    prompts: str = "default"
    embedding: str = DEFAULT_EMBEDDING
    models: dict[Role, str] = Field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """Of all values, defaults included; comments and order do not count."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


def packaged_recipes() -> list[str]:
    """Names of the recipes that come with the package."""
    return sorted(
        entry.name.removesuffix(".yaml")
        for entry in resources.files("graph").joinpath("recipes").iterdir()
        if entry.name.endswith(".yaml")
    )


def load_recipe(name_or_path: str) -> Recipe:
    """Load a packaged recipe by its name, or a file of the user's.

    Raises:
        RecipeError: It does not exist, is no YAML, or has an unknown field or a wrong value.
    """
    if name_or_path in packaged_recipes():
        text = resources.files("graph").joinpath("recipes", f"{name_or_path}.yaml").read_text("utf-8")
    else:
        try:
            text = Path(name_or_path).read_text("utf-8")
        except (OSError, ValueError) as error:
            known = packaged_recipes()
            near = difflib.get_close_matches(name_or_path, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"packaged recipes: {', '.join(known)}"
            reason = getattr(error, "strerror", None) or str(error)
            raise RecipeError(f"recipe {name_or_path}: {reason}; {hint}") from None
    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise RecipeError(f"recipe {name_or_path}: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise RecipeError(f"recipe {name_or_path}: it must be a mapping of fields to values")
    return make_recipe(values, name_or_path)


def make_recipe(values: dict[str, Any], origin: str) -> Recipe:
    """Check values.

    Raises:
        RecipeError: Names the first wrong field, and the nearest known one for a typo.
    """
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        raise RecipeError(f"recipe {origin}: {_explain(error)}") from None


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
    values = recipe.model_dump(mode="json")
    for field, value in changes.items():
        # The word alone would put all other fields of the section back to their defaults.
        whole = "evidence.voters" if field == "evidence" and isinstance(value, str) else field
        *sections, name = whole.split(".")
        place = values
        for section in sections:
            # A section that is not there is refused with all other unknown fields.
            if place.get(section) is None:
                place[section] = {}
            place = place[section]
            if not isinstance(place, dict):
                raise RecipeError(f"recipe {origin}: there is no field {field!r}: {section!r} is no section")
        place[name] = value
    named = ", ".join(f"{field} = {value}" for field, value in changes.items())
    return make_recipe(values, f"{origin} with {named}")


def check_prompts(recipe: Recipe, prompts: PromptSet, origin: str) -> None:
    """Hold a recipe against its prompts.

    Raises:
        RecipeError: It wants replies in a form that a prompt cannot ask for.
    """
    if recipe.evidence.reply == "labels" or not recipe.evidence.asks_model:
        # The paper's form, which prompts may ask for in words of their own.
        return
    for name in (
        ("label_evidence", "reflect_on_labels") if recipe.evidence.reflection else ("label_evidence",)
    ):
        if not prompts[name].uses("reply_form"):
            raise RecipeError(
                f"recipe {origin}: evidence.reply is {recipe.evidence.reply!r}, but prompt {name} of"
                f" {prompts.version!r} has no ${{reply_form}} to ask for it; use prompts that have, such as"
                " 'default', or the reply 'labels'"
            )


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


def _explain(error: ValidationError) -> str:
    first = error.errors()[0]
    place = [str(part) for part in first["loc"]]
    field = ".".join(place) or "recipe"
    if first["type"] != "extra_forbidden":
        return f"{field}: {first['msg'].removeprefix('Value error, ')}"
    known = _fields(place[:-1])
    if not known:
        return f"unknown field {field!r}"
    near = difflib.get_close_matches(place[-1], known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
    return f"unknown field {field!r}; {hint}"


def _fields(place: list[str]) -> list[str]:
    """Of a section; none where it can be of several kinds."""
    model: type[BaseModel] = Recipe
    for name in place:
        annotation = model.model_fields[name].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return list(model.model_fields)
