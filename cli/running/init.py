"""`evigraph init`: a folder to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cases.texts import quoted
from cli.options import ModelOption
from cli.terminal import Result, plural, print_line

_NOTE, _QUESTION = "note.txt", "Why was he started on furosemide?"
"""The packaged note, invented, and a question about it."""
_RECIPE, _CASES = "recipe.yaml", "cases.jsonl"

_HEAD = """\
# A recipe: the system that answers, its models, and the settings of its nodes. This is a copy of the packaged
# recipe {name}, to change as you like: `evigraph recipes` lists others, and
# `evigraph recipes {path} --fields` explains every field that can be set.

# Models by role; `--model STRING` of a command replaces them, and `evigraph models list` shows the choice.
models:
{models}

"""


def init(
    folder: Annotated[
        Path, typer.Argument(help="Folder of the files; created if missing.", metavar="FOLDER")
    ] = Path(),
    note: Annotated[
        Path | None,
        typer.Option(
            "--note",
            help="Note, or a table or folder of notes, as for `cases import`. (default: an invented note)",
            metavar="FILE",
        ),
    ] = None,
    question: Annotated[
        str, typer.Option("--question", "-q", help="Question of each note that comes without one.")
    ] = "",
    model: ModelOption = None,
) -> Result:
    """Write a commented recipe and a case file to start with.

    Nothing is overwritten. It prints the commands that run the cases, show an answer and explain the recipe.

    Example: evigraph init study --note note.txt --question "Why was vitamin K given?"
    """
    import json
    import shlex

    from cases.formats.note_files import import_notes
    from cases.formats.plain_jsonl import write_jsonl
    from cases.load import packaged_path
    from cli.running.ask import MODEL, recipe_for
    from graph.recipe import RECIPES, load_recipe
    from serving.policy.policy import find_policies, keep_beside
    from serving.protocol.model_name import ROLES, assign_roles
    from storage.errors import InputError
    from storage.files import write_atomically

    recipe, cases = folder / _RECIPE, folder / _CASES
    for path in (recipe, cases):
        if path.exists():
            raise InputError(path, "is there already", "Name another folder: evigraph init FOLDER")
    found = import_notes([note or packaged_path(_NOTE)], question=question or ("" if note else _QUESTION))
    if found.faults:
        raise found.faults[0]
    models = assign_roles(model or [], dict.fromkeys(ROLES, MODEL))
    name = recipe_for(model or [])
    folder.mkdir(parents=True, exist_ok=True)
    keep_beside(folder, find_policies([note] if note else []))
    write_jsonl(cases, found.cases)
    lines = "\n".join(f"  {role}: {json.dumps(str(one))}" for role, one in models.items())
    text = _HEAD.format(name=name, path=quoted(recipe), models=lines) + RECIPES.read(name).text
    write_atomically(recipe, [text.encode()])
    run = folder / "out" / "first"
    commands = [
        shlex.join(["evigraph", *map(str, words)])
        for words in (
            ("run", load_recipe(name).system, cases, "--recipe", recipe, "--out", run),
            ("show", run, found.cases[0].id),
            ("recipes", recipe, "--fields"),
        )
    ]

    def print_made() -> None:
        print_line(f"written: {recipe}, and {cases} with {plural(len(found.cases), 'case')}")
        print_line("next:")
        for command in commands:
            print_line(f"  {command}")

    content = {"recipe": str(recipe), "file": str(cases), "cases": len(found.cases), "next": commands}
    return Result(content, print_made)
