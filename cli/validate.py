"""`evigraph validate`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import CasesOption, JsonOption, KeyOption, TaskOption

if TYPE_CHECKING:
    from cases.submissions.prediction import Task


def validate(
    file: Annotated[
        Path, typer.Argument(help="A submission: .zip or .json.", metavar="FILE", show_default=False)
    ],
    task: TaskOption = None,
    key: KeyOption = None,
    cases: CasesOption = None,
    rows: Annotated[int, typer.Option("--rows", min=1, help="At most so many faults.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """Check a submission to ArchEHR-QA or BioASQ against every rule of the official scorer.

    A fault is `refused` where the scorer would stop without a score or BioASQ's rules forbid it, and
    `penalised` where it would score lower and say nothing. Exit codes: 0 nothing refused (penalised faults
    are counted in the last line), 1 something is refused, 2 wrong usage.

    Example: evigraph validate submission.zip --task 2026-2 --key archehr-qa_key.json
    """
    from cases.bioasq_submissions.files import looks_like_bioasq
    from cases.submissions.container import open_submission
    from cases.submissions.fault import worst_first
    from cases.submissions.known_ids import read_expected
    from cases.submissions.validate import find_faults, skipped_checks
    from cli.bioasq import validate_file
    from cli.fault_table import counted, fault_fields, print_faults
    from cli.terminal import output, print_json, safe

    match task:
        case "bioasq-a" | "bioasq-a+" | "bioasq-b":
            validate_file(file, task, [*(cases or ()), *(key or ())], rows, as_json=as_json)
            return
    if task is None and looks_like_bioasq(file):
        validate_file(file, None, [*(cases or ()), *(key or ())], rows, as_json=as_json)
        return
    opened = open_submission(file)
    if opened.entries is not None:
        task = task or _guess(file, opened.entries)
    expected = read_expected(task, key or [], cases or []) if key or cases else None
    faults = list(opened.faults)
    skipped: list[str] = []
    if opened.entries is not None and task is not None:
        faults = worst_first([*faults, *find_faults(opened.entries, task, expected)])
        skipped = skipped_checks(task, expected)
    refused = any(fault.severity == "refused" for fault in faults)
    count = len(opened.entries or ())
    if as_json:
        print_json(
            {
                "file": str(file),
                "task": task,
                "entries": count,
                "ok": not refused,
                "refused": sum(fault.severity == "refused" for fault in faults),
                "penalised": sum(fault.severity == "penalised" for fault in faults),
                "faults": fault_fields(faults),
                "not_checked": skipped,
            }
        )
    else:
        console = output()
        print_faults(console, faults, rows)
        if skipped:
            console.print(safe(f"not checked: {'; '.join(skipped)}"), soft_wrap=True)
        what = f"{count} {'entry' if count == 1 else 'entries'} for {task}" if task else "nothing read"
        console.print(safe(f"{file}: {what}: {counted(faults) or 'no fault found'}"), soft_wrap=True)
    if refused:
        raise typer.Exit(1)


def _guess(file: Path, entries: Sequence[object]) -> Task:
    from cases.submissions.task import TASKS, possible_tasks

    possible = possible_tasks(entries)
    if len(possible) == 1:
        return possible[0]
    choices = " or ".join(f"--task {task}" for task in possible or TASKS)
    reason = "two tasks have this shape" if possible else "its entries have the shape of no one task"
    raise typer.BadParameter(f"{file}: {reason}; add {choices}", param_hint="--task")
