"""`evigraph recipes` and `evigraph graph`: the systems, their recipes and the recipes' fields."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer

from cases.texts import printable
from cli.completion import recipe_names, system_names
from cli.terminal import Result, print_line, print_rows

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from cases.definitions import Definition

_WORDS = {str: "text", int: "integer", float: "number", bool: "true or false", type(None): "null"}
_COLLECTIONS = {tuple: "list of", list: "list of", frozenset: "list of", dict: "mapping of"}
_BOUNDS = {"ge": "from", "gt": "above", "le": "to", "lt": "below"}


def graph(
    system: Annotated[
        str,
        typer.Argument(
            help="A system; `evigraph recipes` lists them.", metavar="SYSTEM", autocompletion=system_names
        ),
    ],
) -> None:
    """Print a system's graph as Mermaid text, with every route.

    Example: evigraph graph tamu > tamu.mmd
    """
    from graph.system import find_system

    sys.stdout.write(find_system(system).drawn.draw_mermaid())


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A packaged recipe, or a file. (default: list them)",
            metavar="[NAME|FILE]",
            autocompletion=recipe_names,
        ),
    ] = None,
    fields: Annotated[
        bool, typer.Option("--fields", help="Explain every field that a recipe of this system can set.")
    ] = False,
) -> Result:
    """List the packaged recipes, print one with its comments, or explain its fields.

    A recipe names a system and sets what its nodes read. To change one, write it to a file and name that by
    `evigraph run SYSTEM CASES... --recipe FILE`.

    Example: evigraph recipes tamu --fields
    """
    from graph.recipe import RECIPES, load_recipe

    if name is None:
        return _list()
    explained, text = list(explain(load_recipe(name))), RECIPES.read(name).text

    def print_recipe() -> None:
        if fields:
            _print_fields(explained)
        else:
            # YAML has three ends of a line, and a terminal returns to its beginning at one of them.
            sys.stdout.write(printable(text.replace("\r\n", "\n").replace("\r", "\n")))

    content = {
        **_summary(RECIPES.read(name)),
        "text": text,
        "fields": [asdict(field) for field in explained],
    }
    return Result(content, print_recipe)


@dataclass(frozen=True, slots=True)
class ExplainedField:
    """A field of a recipe.

    Attributes:
        name: Dotted.
        type: In words.
        default: Where a recipe is silent; None where the type is `null` too, or the field is required.
        value: In the recipe that was asked for.
        meaning: Empty where the schema does not say.
    """

    name: str
    type: str
    default: Any
    value: Any
    meaning: str
    required: bool


def explain(values: BaseModel, prefix: str = "") -> Iterator[ExplainedField]:
    """Every field of a model's class and of its sections, with its value."""
    from pydantic import BaseModel
    from pydantic_core import to_jsonable_python

    model = type(values)
    for name, field in model.model_fields.items():
        value = getattr(values, name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from explain(value, f"{prefix}{name}.")
            continue
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        yield ExplainedField(
            name=prefix + name,
            type=_type(field),
            default=to_jsonable_python(default),
            value=to_jsonable_python(value),
            meaning=" ".join((field.description or _documented(model, name)).split()),
            required=field.is_required(),
        )


def _type(field: FieldInfo) -> str:
    bounds = [
        f"{word} {value}"
        for name, word in _BOUNDS.items()
        for one in field.metadata
        if (value := getattr(one, name, None)) is not None
    ]
    return " ".join([_words(field.annotation), *bounds])


def _words(annotation: Any) -> str:
    """A type as someone who writes YAML would name it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _words(arguments[0])
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin in _COLLECTIONS:
        # A list of texts is written `tuple[str, ...]`, a mapping's keys are names.
        inner = arguments[-1] if origin is dict else arguments[0]
        return f"{_COLLECTIONS[origin]} {_words(inner)}"
    if arguments:
        return " | ".join(dict.fromkeys(map(_words, arguments)))
    if fields := getattr(annotation, "model_fields", None):
        kind = {name: get_args(field.annotation) for name, field in fields.items()}
        return (
            "{" + ", ".join(f"{name}: {of[0]}" if len(of) == 1 else name for name, of in kind.items()) + "}"
        )
    return _WORDS.get(annotation, str(getattr(annotation, "__name__", annotation)))


def _documented(model: type[BaseModel], name: str) -> str:
    """Description of a field in the `Attributes:` of a class or its bases."""
    for one in model.__mro__:
        _, _, attributes = (one.__doc__ or "").partition("Attributes:\n")
        found = re.search(rf"^( +){name}: (.*(?:\n\1 +.*)*)", attributes, re.MULTILINE)
        if found is not None:
            return found[2]
    return ""


def _list() -> Result:
    from graph.recipe import RECIPES

    found = [_summary(RECIPES.read(name)) for name in RECIPES.packaged_names()]

    def print_recipes() -> None:
        rows = [(one["name"], one["system"], one["summary"]) for one in found]
        print_rows(("recipe", "system", "description"), rows)
        print_line("next: evigraph recipes NAME prints one, with --fields the meaning of each field")

    return Result({"recipes": found}, print_recipes)


def _summary(recipe: Definition) -> dict[str, str]:
    """Its name, its system, and the first sentence of the comment that it begins with."""
    comment = re.match(r"(?:#.*\n)*", recipe.text)
    assert comment is not None
    text = " ".join(line.removeprefix("# ") for line in comment[0].splitlines())
    # A colon before spaces begins a list.
    summary = re.split(r"(?<=\.) (?=[A-Z`])|:  ", text)[0]
    return {"name": recipe.origin, "system": recipe.values["system"], "summary": summary}


def _print_fields(fields: list[ExplainedField]) -> None:
    import json

    rows = []
    for field in fields:
        default = "required" if field.required else json.dumps(field.default)
        here = "" if field.value == field.default else f" (here {json.dumps(field.value)})"
        rows.append((field.name, field.type, default + here, field.meaning))
    print_rows(("field", "type", "default", "meaning"), rows)
