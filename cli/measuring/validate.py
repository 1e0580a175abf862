"""`evigraph validate`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.options import CasesOption, KeyOption, TaskOption
from cli.terminal import Result, print_line, print_rows, safe

if TYPE_CHECKING:
    from cases.submissions.task import Fault, TaskName
    from cases.submissions.tasks import Family


def validate(
    file: Annotated[Path, typer.Argument(help="A submission: .zip or .json.", metavar="FILE")],
    task: TaskOption = None,
    key: KeyOption = None,
    cases: CasesOption = None,
    rows: Annotated[int, typer.Option(min=1, help="Most faults to list.")] = 50,
) -> Result:
    """Check a submission to ArchEHR-QA or BioASQ against every rule of the official scorer.

    A fault is `refused` where the scorer would stop without a score or BioASQ's rules forbid it, and
    `penalised` if it would silently score lower. Exit codes: 0 nothing refused (penalised faults
    are counted in the last line), 1 some fault is refused, 2 wrong usage.

    Example: evigraph validate submission.zip --task 2026-2 --key archehr-qa_key.json
    """
    from cases.submissions.task import worst_first
    from cases.submissions.tasks import SUBMISSIONS, family_of

    family = {task: SUBMISSIONS[task]} if task else family_of(file)
    submission = next(iter(family.values()))
    opened = submission.open(file)
    if opened.entries is not None and task is None:
        task = _guess(file, opened.entries, family)
        submission = SUBMISSIONS[task]
    expected = submission.read_expected(key or [], cases or []) if key or cases else None
    faults = list(opened.faults)
    skipped: list[str] = []
    if opened.entries is not None:
        faults = worst_first([*faults, *submission.find_faults(opened.entries, expected)])
        skipped = submission.skipped_checks(expected)
    counts = Counter(fault.severity for fault in faults)
    count = len(opened.entries or ())

    def print_checked() -> None:
        _print_faults(faults, rows)
        if skipped:
            print_line(f"not checked: {'; '.join(skipped)}")
        what = f"{count} {submission.words.entry[count != 1]} for {task}" if task else "nothing read"
        print_line(f"{file}: {what}: {counted(faults) or 'no fault found'}")

    content = {
        "file": str(file),
        "task": task,
        "entries": count,
        "ok": not counts["refused"],
        "refused": counts["refused"],
        "penalised": counts["penalised"],
        "faults": fault_fields(faults),
        "not_checked": skipped,
    }
    return Result(content, print_checked, int(counts["refused"] > 0))


def _guess(file: Path, entries: Sequence[object], family: Family) -> TaskName:
    from cases.submissions.tasks import possible_tasks

    possible = possible_tasks(entries, family)
    if len(possible) == 1:
        return possible[0]
    choices = " or ".join(f"--task {task}" for task in possible or family)
    words = next(iter(family.values())).words
    reason = words.ambiguous if possible else words.unfit
    raise typer.BadParameter(f"{file}: {reason}; add {choices}", param_hint="--task")


_COLOURS = {"refused": "red", "penalised": "yellow"}


def _print_faults(faults: Sequence[Fault], rows: int) -> None:
    if not faults:
        return
    shown = [
        (
            safe(fault.severity, _COLOURS[fault.severity]),
            _printable(fault.case or "-"),
            _printable(fault.place or "-"),
            _printable(fault.fault),
            _printable(fault.remedy),
        )
        for fault in faults[:rows]
    ]
    print_rows(("severity", "case", "place", "fault", "remedy"), shown)
    if len(faults) > rows:
        print_line(f"... and {len(faults) - rows} more: --rows {len(faults)} shows all")
    print_line()


def counted(faults: Sequence[Fault]) -> str:
    """`2 refused, 3 penalised`; empty if nothing is wrong."""
    counts = Counter(fault.severity for fault in faults)
    return ", ".join(f"{counts[kind]} {kind}" for kind in ("refused", "penalised") if counts[kind])


def fault_fields(faults: Sequence[Fault]) -> list[dict[str, Any]]:
    """For `--json`."""
    return [{name: value and _printable(value) for name, value in asdict(fault).items()} for fault in faults]


def _printable(text: str) -> str:
    """JSON may name half of a surrogate pair, which no terminal takes."""
    return text.encode("utf-8", "replace").decode("utf-8")
