"""`evigraph submit`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import RunFolderArgument, TaskName
from cli.terminal import Result, print_line, print_message

if TYPE_CHECKING:
    from cases.submissions.task import Words
    from evals.submissions import RunSubmission
    from runs.record.folder import RunFolder


def submit(
    run: RunFolderArgument,
    task: Annotated[
        TaskName,
        typer.Option(
            "--task",
            "-t",
            help="ArchEHR-QA 2025, or a subtask of 2026: 1 question, 2 evidence, 3 answer, 4 links; or a"
            " phase of BioASQ.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Zip file, or JSON if the name ends in .json. (default: submission-TASK.zip in the run;"
            " BioASQ: .json)",
            metavar="FILE",
        ),
    ] = None,
    fill_missing: Annotated[
        bool,
        typer.Option(
            "--fill-missing",
            help="Submit an empty list for each case without a prediction (2026-2, 2026-4), or the question"
            " without an answer (BioASQ).",
        ),
    ] = False,
) -> Result:
    """Write a run's submission to ArchEHR-QA or BioASQ, if its rules allow it.

    It is first checked against the run's own cases. A failed case, or a fault that the scorer rejects, is
    reported, and nothing is written (exit code 1). Faults that the scorer would silently score lower are
    reported, and written.

    Example: evigraph submit out/2026-11-21T10-15-tamu-ab12 --task 2026-2
    """
    from cases.submissions.tasks import ARCHEHR, SUBMISSIONS
    from cli.measuring.validate import fault_fields
    from evals.submissions import FILLABLE, prepare, unsupported_answers
    from runs.record.audit import record_if_possible
    from runs.record.folder import RunFolder

    folder, submission = RunFolder(run), SUBMISSIONS[task]
    target = out or run / f"submission-{task}{submission.suffixes[0]}"
    if target.suffix.lower() not in submission.suffixes:
        what = "a submission" if task in ARCHEHR else "a submission to BioASQ"
        raise typer.BadParameter(
            f"{target}: {what} ends in {' or '.join(submission.suffixes)}", param_hint="--out"
        )
    if fill_missing and task in ARCHEHR and task not in FILLABLE:
        raise typer.BadParameter(
            f"task {task} takes no empty text; only {' and '.join(FILLABLE)} can be filled",
            param_hint="--fill-missing",
        )
    ready = prepare(folder, task, fill_missing=fill_missing)
    if not ready.refused:
        submission.write_entries(target, ready.entries)
        record_if_possible(run, "exported", what=f"submission {task}", to=str(target))
    following = _next(folder, target, task) if not ready.refused else []
    _report(ready, submission.words)
    unsupported = [] if ready.refused else unsupported_answers(folder, task)
    for warning in unsupported:
        print_message(" ".join(warning.split()), "yellow")

    def print_written() -> None:
        if ready.refused:
            return
        filled = f", {len(ready.filled)} of them empty" if ready.filled and task in ARCHEHR else ""
        print_line(
            f"{len(ready.entries)} {submission.words.case[len(ready.entries) != 1]}{filled} in {target}"
        )
        for number, command in enumerate(following):
            print_line(f"{'     ' if number else 'next:'} {command}")

    content = {
        "run": str(run),
        "task": task,
        "file": None if ready.refused else str(target),
        submission.words.case[1]: len(ready.entries),
        "filled": list(ready.filled),
        "faults": fault_fields(ready.faults),
        "unsupported": unsupported,
        "next": following,
    }
    return Result(content, print_written, int(bool(ready.refused)))


def _report(ready: RunSubmission, words: Words) -> None:
    """Print faults and surprises on standard error, a line each."""
    from cli.measuring.validate import counted

    alone = ready.refused and len(ready.faults) == 1
    for fault in ready.faults:
        remedy = f". {fault.remedy}" if fault.remedy else ""
        head = "nothing written" if alone else fault.severity
        line = " ".join(f"{head}: {fault.line}{remedy}".split())
        colour = "red" if fault.severity == "refused" else "yellow"
        print_message(line, colour)
    if alone:
        return
    if ready.refused:
        print_message(f"nothing written: {counted(ready.faults)}", "red")
        return
    if ready.filled:
        count = len(ready.filled)
        filled = f"{words.filled} {count} {words.case[count != 1]}: {', '.join(ready.filled)}"
        print_message(filled, "yellow")


def _next(folder: RunFolder, target: Path, task: str) -> list[str]:
    inputs = folder.manifest.inputs
    against = [
        *(part for path in inputs.paths for part in ("--cases", path)),
        *(part for path in inputs.keys for part in ("--key", path)),
    ]
    return [
        shlex.join(["evigraph", "validate", str(target), "--task", task, *against]),
        shlex.join(["evigraph", "score", str(target), "--task", task, *against]),
    ]
