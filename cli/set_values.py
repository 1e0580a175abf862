"""`--set FIELD=VALUE`: values of a recipe from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Any other value of the recipe, such as answer.temperature=0.7. Repeatable. `evigraph recipes"
        " NAME --fields` explains them.",
        metavar="FIELD=VALUE",
    ),
]

_ELSEWHERE = {"system": "name another SYSTEM or recipe", "models": "give --model"}


def recipe_values(texts: Sequence[str]) -> dict[str, Any]:
    """Values as a recipe's YAML would have them, by dotted field.

    Raises:
        typer.BadParameter: A text is not of the form, or its field is set by other means.
        RecipeError: A value is no YAML.
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
