"""`evigraph ask`: one question on one note, answered at once."""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cases.texts import quoted
from cli.completion import recipe_names
from cli.flags import SessionFlags
from cli.options import EffortOption, ModelOption
from cli.running.print_answer import CASE, FILE, answer_result
from cli.set_values import effort_values
from cli.terminal import Result, duration, plural, print_message

if TYPE_CHECKING:
    from cases.records import Case
    from runs.execute.assemble import Request
    from runs.execute.batch import Options

MODEL = "embedded:qwen2.5-coder-1.5b"
"""What `make demo` asks: it needs no server."""
_OF_MODEL = "laptop"
"""The recipe that was calibrated for `MODEL`."""
_OF_ANY_MODEL = "ask"
_RUN = "run"
_MAX_NOTE = 1 << 22
_LONG_NOTE = 500
"""Sentences from which on a person is asked before the model is."""
_PACES = {"embedded": (150.0, 15.0)}
_PACE = (2_000.0, 50.0)
"""Tokens read and written in a second: by a model in this process on two cores, and by a server."""


def ask(
    words: Annotated[list[str], typer.Argument(help="The question, in quotes.", metavar="QUESTION")],
    note: Annotated[
        Path,
        typer.Option(
            "--note", help="Note: .txt, .md, .docx or .pdf; '-' for standard input.", metavar="FILE"
        ),
    ],
    model: ModelOption = None,
    effort: EffortOption = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            "-r",
            help="Recipe file, or the name of a packaged one. (default: ask; laptop for the model that it was"
            " calibrated for)",
            metavar="NAME|FILE",
            autocompletion=recipe_names,
        ),
    ] = None,
    encoding: Annotated[
        str, typer.Option(help="Encoding of the note, such as cp1252 for files of Windows.")
    ] = "utf-8",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder of the case and its run. (default: a new one in out/)",
            metavar="FOLDER",
        ),
    ] = None,
    *,
    flags: SessionFlags,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the calls and tokens of the answer, and make none.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before a note of more than 500 sentences.")
    ] = False,
) -> Result:
    """Answer one question from one note; verify each sentence of the answer and name its sources.

    A sentence that the note does not support is marked. If the note does not answer the question, the answer
    is "The note does not say." Case and run are kept in a folder, so `evigraph show` shows how the answer was
    made. Without --model a small model answers in this process, and its answers need checking.

    Example: evigraph ask "Why was vitamin K given?" --note note.txt --model openai:gpt-5-mini --allow-hosted
    """
    from cases.formats.plain_jsonl import write_jsonl
    from cli.session import until_signal
    from graph.recipe import load_recipe, located, override
    from runs.execute.assemble import Request
    from runs.execute.sessions import start
    from serving.policy.policy import NotScanned, find_policies, keep_beside
    from serving.protocol.model_name import ROLES, assign_roles
    from storage.errors import InputError
    from storage.private import private_folder

    case = _read_case(_question(words, note), note, encoding)
    recipe = recipe or recipe_for(model or [])
    loaded = load_recipe(recipe)
    overrides = effort_values(effort or (), loaded.effort)
    loaded = override(loaded, overrides, recipe)
    models = assign_roles(model or [], loaded.models or dict.fromkeys(ROLES, MODEL))
    options = flags.options("run")
    folder = Path(tempfile.mkdtemp()) / "ask" if dry_run else out or _new_folder()
    if folder.exists():
        raise InputError(folder, "is there already", "Choose another --out")
    private_folder(folder)
    keep_beside(folder, find_policies([] if str(note) == "-" else [note]))
    write_jsonl(folder / FILE, [case])
    request = Request(
        recipe=loaded,
        recipe_origin=located(recipe),
        inputs=(folder / FILE,),
        keys=(),
        models=models,
        overrides=overrides,
    )
    try:
        if dry_run:
            from cli.running.dry_run import rehearse

            return rehearse(request, options)
        if len(case.sentences) > _LONG_NOTE:
            _announce(request, options, len(case.sentences), yes=yes)
        run, interrupted = until_signal(
            lambda stop, watcher: start(request, folder / _RUN, options, stop=stop, watcher=watcher)
        )
    except NotScanned:
        # The case must be scanned first, and stays the same for the next attempt.
        raise
    except BaseException:
        if not (folder / _RUN).exists():
            # Nothing was asked, so nothing is lost.
            shutil.rmtree(folder)
        raise
    finally:
        if dry_run:
            shutil.rmtree(folder.parent)
    line = run.case(CASE)
    if line is None:
        print_message(f"not answered; go on: evigraph resume {quoted(run.path)}")
        raise typer.Exit(130 if interrupted else 1)

    answered = answer_result(case, run, line)

    def print_answer() -> None:
        answered.show()
        if not model and not loaded.models:
            print_message(f"{MODEL} is small: check its answer, or ask yours by --model STRING", "yellow")

    return replace(answered, show=print_answer)


def recipe_for(models: list[str]) -> str:
    """The packaged recipe that answers one question best with some models."""
    from serving.protocol.model_name import ROLES, assign_roles

    chosen = assign_roles(models, dict.fromkeys(ROLES, MODEL))
    return _OF_MODEL if {one.identity for one in chosen.values()} == {MODEL} else _OF_ANY_MODEL


def _question(words: list[str], note: Path) -> str:
    from storage.errors import InputError

    if len(words) > 1:
        command = f'evigraph ask "{" ".join(words)}" --note {quoted(note)}'
        raise InputError("QUESTION", "is more than one word", f"Put the question in quotes: {command}")
    if not words[0].strip():
        raise typer.BadParameter("it is empty", param_hint="QUESTION")
    return words[0]


def _read_case(question: str, note: Path, encoding: str) -> Case:
    from cases.formats.note_files import decoded, note_case, read_note

    if str(note) == "-":
        name, content = "standard input", sys.stdin.buffer.read(_MAX_NOTE)
        return note_case(CASE, question, decoded(content, name, encoding), name)
    return note_case(CASE, question, read_note(note, encoding), note)


def _announce(request: Request, options: Options, sentences: int, *, yes: bool) -> None:
    """Say how long a long note takes, from the tokens of a dry run, and ask if there is a terminal.

    Raises:
        typer.Abort: The user answered no.
    """
    from cli.session import until_signal
    from runs.estimate.dry_run import dry_run

    estimate, _ = until_signal(lambda stop, watcher: dry_run(request, options, stop=stop, watcher=watcher))
    seconds = 0.0
    for role, part in estimate.tallies.items():
        read, written = _PACES.get(request.models[role].provider, _PACE)
        seconds += part.input_tokens / read + (part.output_tokens + part.thinking_tokens) / written
    said = f"The note has {plural(sentences, 'sentence')}; the answer takes about {duration(seconds)}."
    print_message(f"{said} A shorter part of the note takes less.", "yellow", wrap=True)
    if not yes and sys.stdin.isatty():
        typer.confirm("Ask it?", default=True, abort=True)


def _new_folder() -> Path:
    stem = f"{datetime.now().astimezone():%Y-%m-%dT%H-%M}-ask"
    names = [stem, *(f"{stem}-{number}" for number in range(2, 1000))]
    return next(path for path in (Path("out") / name for name in names) if not path.exists())
