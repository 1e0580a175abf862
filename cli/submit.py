"""`evigraph submit`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import JsonOption, RunFolderArgument, TaskName

if TYPE_CHECKING:
    from evals.scoring.run_submission import RunSubmission
    from runs.folder import RunFolder


def submit(
    run: RunFolderArgument,
    task: Annotated[
        TaskName,
        typer.Option(
            "--task",
            "-t",
            help="ArchEHR-QA 2025, or a subtask of 2026: 1 question, 2 evidence, 3 answer, 4 links; or a"
            " phase of BioASQ.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Zip, or JSON if it ends in .json. (default: submission-TASK.zip in the run; BioASQ: .json)",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    fill_missing: Annotated[
        bool,
        typer.Option(
            "--fill-missing",
            help="Hand in an empty list for each case without a prediction (2026-2, 2026-4), or the question"
            " without an answer (BioASQ).",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a run's submission to ArchEHR-QA or BioASQ, if its rules allow it.

    It is checked against the run's own cases first. A case that failed, or a fault that the scorer
    refuses, is named, and nothing is written (exit code 1). What it would score lower in silence is
    named too, and written.

    Example: evigraph submit out/2026-11-21T10-15-tamu-ab12 --task 2026-2
    """
    from cases.submissions.write import write_submission
    from cli.bioasq import submit_run
    from cli.terminal import output, print_json, safe
    from evals.scoring.run_submission import FILLABLE, prepare
    from runs.folder import RunFolder

    match task:
        case "bioasq-a" | "bioasq-a+" | "bioasq-b":
            submit_run(run, task, out, fill_missing=fill_missing, as_json=as_json)
            return
    folder = RunFolder(run)
    target = out or run / f"submission-{task}.zip"
    if target.suffix.lower() not in (".zip", ".json"):
        raise typer.BadParameter(f"{target}: a submission ends in .zip or .json", param_hint="--out")
    if fill_missing and task not in FILLABLE:
        raise typer.BadParameter(
            f"task {task} takes no empty text; only {' and '.join(FILLABLE)} can be filled",
            param_hint="--fill-missing",
        )
    ready = prepare(folder, task, fill_missing=fill_missing)
    if not ready.refused:
        write_submission(target, task, ready.predictions)
    following = _next(folder, target, task) if not ready.refused else []
    _remark(folder, ready)
    if as_json:
        from cli.fault_table import fault_fields

        print_json(
            {
                "run": str(run),
                "task": task,
                "file": None if ready.refused else str(target),
                "cases": len(ready.predictions),
                "filled": list(ready.filled),
                "faults": fault_fields(ready.faults),
                "next": following,
            }
        )
    elif not ready.refused:
        filled = f", {len(ready.filled)} of them empty" if ready.filled else ""
        output().print(safe(f"{len(ready.predictions)} cases{filled} in {target}"), soft_wrap=True)
        for number, command in enumerate(following):
            output().print(safe(f"{'     ' if number else 'next:'} {command}"), soft_wrap=True)
    if ready.refused:
        raise typer.Exit(1)


def _remark(folder: RunFolder, ready: RunSubmission) -> None:
    """Say on standard error, a line each, what is wrong and what is not as one may think."""
    from cli.fault_table import counted
    from cli.terminal import messages, safe

    console = messages()
    for fault in ready.faults:
        remedy = f". {fault.remedy}" if fault.remedy else ""
        line = " ".join(f"{fault.severity}: {fault.line}{remedy}".split())
        colour = "red" if fault.severity == "refused" else "yellow"
        console.print(safe(line, colour), soft_wrap=True)
    if ready.refused:
        console.print(safe(f"nothing written: {counted(ready.faults)}", "red"), soft_wrap=True)
        return
    if ready.filled:
        names = ", ".join(ready.filled)
        count = len(ready.filled)
        console.print(
            safe(
                f"EMPTY LISTS, not predictions, for {count} {'case' if count == 1 else 'cases'}: {names}",
                "yellow",
            ),
            soft_wrap=True,
        )
    inputs = folder.manifest.inputs
    if inputs.cases == inputs.limit:
        console.print(
            safe(f"the run was limited to {inputs.limit} cases (--limit); the scorer wants every case"),
            soft_wrap=True,
        )


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
