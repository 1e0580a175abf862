"""`--set FIELD=VALUE`: values of a recipe from the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from serving.protocol.model_name import Role
    from serving.protocol.thinking import Effort

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Any other value of the recipe, such as answer.temperature=0.7. Repeatable. `evigraph recipes"
        " NAME --fields` explains them.",
        metavar="FIELD=VALUE",
    ),
]

_ELSEWHERE = {
    "system": "name another SYSTEM or recipe",
    "models": "give --model",
    "effort": "give --effort",
}


def recipe_values(texts: Sequence[str]) -> dict[str, Any]:
    """Values as a recipe's YAML would have them, by dotted field.

    Raises:
        typer.BadParameter: A text is not of the form, or its field is set by other means.
        RecipeError: A value is not YAML.
    """
    import yaml

    from graph.recipe import RecipeError

    found = {}
    for field, text in pairs("--set", texts, "FIELD=VALUE"):
        hint = _ELSEWHERE.get(field.partition(".")[0])
        if hint is not None:
            raise typer.BadParameter(f"--set cannot change {field!r}: {hint}")
        try:
            found[field] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise RecipeError(f"--set {field}: {' '.join(str(error).split())}") from None
    return found


def effort_values(texts: Sequence[str], recipe: Mapping[Role, Effort]) -> dict[str, Any]:
    """The recipe's effort by role as `--effort [ROLE=]LEVEL` changes it; nothing if the option is not given.

    Raises:
        typer.BadParameter: A role or a level is unknown.
    """
    from serving.protocol.model_name import FOLLOWED, ROLES
    from serving.protocol.thinking import EFFORTS

    found: dict[str, str] = {role: level for role, level in recipe.items()}
    for text in texts:
        role, separator, level = text.rpartition("=")
        if level not in EFFORTS:
            raise typer.BadParameter(f"--effort: unknown level {level!r}; levels: {', '.join(EFFORTS)}")
        if separator and role not in ROLES:
            raise typer.BadParameter(f"--effort: unknown role {role!r}; roles: {', '.join(ROLES)}")
        # Unless it is named, a role such as `reflect` follows another.
        found = {**found, role: level} if separator else {one: level for one in ROLES if one not in FOLLOWED}
    return {"effort": found} if texts else {}


def prompt_files(texts: Sequence[str]) -> dict[str, Path]:
    """Read the values of `--prompt`: absolute paths, as a run is resumed from any folder.

    Raises:
        typer.BadParameter: A text is not of the form.
    """
    return {name: Path(file).resolve() for name, file in pairs("--prompt", texts, "NAME=FILE")}


def pairs(option: str, texts: Sequence[str], form: str) -> list[tuple[str, str]]:
    """Names and values of a repeatable option.

    Raises:
        typer.BadParameter: One has no `=`, or nothing on a side of it.
    """
    found = [text.partition("=") for text in texts]
    for name, separator, value in found:
        if not (name and separator and value):
            raise typer.BadParameter(f"{option} takes {form}, not {name + separator + value!r}")
    return [(name, value) for name, _, value in found]
