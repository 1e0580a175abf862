"""`evigraph ask`: one question on one note, answered at once."""

from __future__ import annotations

import shutil
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.flags import SessionFlags
from cli.options import EffortOption, ModelOption
from cli.set_values import effort_values
from cli.terminal import Result, plural, print_line, print_message

if TYPE_CHECKING:
    from cases.records import Case
    from runs.record.folder import Line, RunFolder

_MODEL = "embedded:qwen2.5-coder-1.5b"
"""What `make demo` asks: it needs no server."""
_OF_MODEL = "laptop"
"""The recipe that was calibrated for `_MODEL`."""
_OF_ANY_MODEL = "ask"
_CASE = "note"
_FILE, _RUN = "case.jsonl", "run"
_MAX_NOTE = 1 << 22
_ROWS = 20


def ask(
    question: Annotated[str, typer.Argument(help="The question, in quotes.", metavar="QUESTION")],
    note: Annotated[
        Path, typer.Option("--note", help="Text file of the note, '-' for standard input.", metavar="FILE")
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
) -> Result:
    """Answer one question from one note, and name the sentences that the answer rests on.

    The note is split into numbered sentences. Case and run stay in a folder, so `evigraph show` tells how the
    answer came to be. Without --model a small model answers in this process, and its answers need checking.

    Example: evigraph ask "Why was vitamin K given?" --note note.txt --model openai:gpt-5-mini --allow-hosted
    """
    from cases.formats.note_files import decoded, note_case
    from cases.formats.plain_jsonl import write_jsonl
    from cli.session import until_signal
    from graph.recipe import load_recipe, override
    from runs.execute.assemble import Request
    from runs.execute.sessions import start
    from runs.record.manifest import quoted
    from serving.policy.policy import NotScanned, find_policies, keep_beside
    from serving.protocol.model_name import ROLES, assign_roles
    from storage.errors import InputError
    from storage.files import whole
    from storage.private import private_folder

    if not question.strip():
        raise typer.BadParameter("it is empty", param_hint="QUESTION")
    if str(note) == "-":
        text = decoded(sys.stdin.buffer.read(_MAX_NOTE), "standard input", encoding)
    else:
        text = decoded(whole(note, _MAX_NOTE), note, encoding)
    case = note_case(_CASE, question, text, "standard input" if str(note) == "-" else note)
    if recipe is None:
        chosen = assign_roles(model or [], dict.fromkeys(ROLES, _MODEL))
        recipe = _OF_MODEL if {one.identity for one in chosen.values()} == {_MODEL} else _OF_ANY_MODEL
    loaded = load_recipe(recipe)
    overrides = effort_values(effort or (), loaded.effort)
    loaded = override(loaded, overrides, recipe)
    models = assign_roles(model or [], loaded.models or dict.fromkeys(ROLES, _MODEL))
    options = flags.options("run")
    folder = out or _new_folder()
    if folder.exists():
        raise InputError(folder, "is there already", "Choose another --out")
    private_folder(folder)
    keep_beside(folder, find_policies([] if str(note) == "-" else [note]))
    write_jsonl(folder / _FILE, [case])
    request = Request(
        recipe=loaded,
        recipe_origin=str(Path(recipe).resolve()) if Path(recipe).is_file() else recipe,
        inputs=(folder / _FILE,),
        keys=(),
        models=models,
        overrides=overrides,
    )
    try:
        run, interrupted = until_signal(
            lambda stop, watcher: start(request, folder / _RUN, options, stop=stop, watcher=watcher)
        )
    except NotScanned:
        # The case is what has to be scanned, and it is the same one when it is asked again.
        raise
    except BaseException:
        if not (folder / _RUN).exists():
            # Nothing was asked, so nothing is lost.
            shutil.rmtree(folder)
        raise
    line = run.case(_CASE)
    if line is None:
        print_message(f"not answered; go on: evigraph resume {quoted(run.path)}", soft_wrap=True)
        raise typer.Exit(130 if interrupted else 1)

    def print_answer() -> None:
        _print(case, run, line)
        if not model and not loaded.models:
            print_message(f"{_MODEL} is small: check its answer, or ask yours by --model STRING", "yellow")

    return Result(_as_json(case, run, line), print_answer, int(line["error"] is not None))


def _new_folder() -> Path:
    stem = f"{datetime.now().astimezone():%Y-%m-%dT%H-%M}-ask"
    names = [stem, *(f"{stem}-{number}" for number in range(2, 1000))]
    return next(path for path in (Path("out") / name for name in names) if not path.exists())


def _rests_on(line: Line) -> list[str]:
    """Ids of the sentences behind an answer: those that it cites, was built on, or that are essential."""
    if line.get("alignment") and line.get("aligned_answer") != "clinician":
        return [id_ for cited in line["alignment"].values() for id_ in cited]
    if line.get("answer_evidence") is not None:
        return list(line["answer_evidence"])
    return [id_ for id_, label in line["labels"].items() if label == "essential"]


def _as_json(case: Case, run: RunFolder, line: Line) -> dict[str, Any]:
    behind = set(_rests_on(line))
    return {
        "question": case.question,
        "status": line["status"],
        "answer": line.get("answer"),
        "sentences": [{"id": one.id, "text": one.text} for one in case.sentences if one.id in behind],
        "of_sentences": len(case.sentences),
        "flags": line["flags"],
        "error": line["error"],
        "models": {role: model.name for role, model in run.manifest.models.items()},
        "run": str(run.path),
    }


def _print(case: Case, run: RunFolder, line: Line) -> None:
    """The answer, under it the sentences that it rests on, and where the run is."""
    from rich.table import Table

    from cli.terminal import output, safe
    from runs.record.manifest import quoted

    if line["error"] is not None:
        print_line(f"failed: {line['error']['class']}: {line['error']['message']}", "red")
    elif line.get("answer"):
        output().print(safe(line["answer"], "bold"))
    else:
        print_line("no answer" + (f": {', '.join(line['flags'])}".replace("_", " ") if line["flags"] else ""))
    behind = set(_rests_on(line))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", min_width=3)
    grid.add_column(overflow="fold")
    for one in [one for one in case.sentences if one.id in behind][:_ROWS]:
        grid.add_row(safe(one.id), safe(one.text))
    print_line()
    print_line(f"rests on {len(behind):,} of {plural(len(case.sentences), 'sentence')}")
    output().print(grid)
    if len(behind) > _ROWS:
        print_line(f"... and {len(behind) - _ROWS:,} more")
    print_line()
    print_line(f"run: {run.path}", soft_wrap=True)
    again = "retry" if line["error"] is not None else "show"
    print_line(
        f"next: evigraph {again} {quoted(run.path)}" + ("" if again == "retry" else f" {_CASE}"),
        soft_wrap=True,
    )
