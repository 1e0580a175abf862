"""`evigraph check`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cases.texts import quoted
from cli.options import run_folder
from cli.terminal import Result, plural, print_line

if TYPE_CHECKING:
    from runs.upkeep.check import Check, Repaired


def check(
    run: Annotated[
        Path,
        typer.Argument(
            help="A run folder, its tag, last, or a call journal.", metavar="RUN", parser=run_folder
        ),
    ],
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Keep the intact part, and move damaged files to RUN/damaged."),
    ] = False,
) -> Result:
    """Compare the files of a run with their checksums, and report damage and losses.

    After a repair, `evigraph resume` runs the lost cases again: replies that the journal still has are
    replayed. Exit codes: 0 whole, or whole again; 1 damaged; 2 no run, or one that cannot be repaired.

    Example: evigraph check out/2026-11-21T10-15-tamu-ab12 --repair
    """
    found = _journal(run, repair=repair) if run.is_file() else _run(run, repair=repair)
    return Result(found, partial(_print, found), int(bool(found["faults"]) and not repair))


def _run(path: Path, *, repair: bool) -> dict[str, Any]:
    from runs.record.folder import RunFolder
    from runs.record.manifest import RunError
    from runs.upkeep.check import Check, check, repair_run

    if repair:
        made = repair_run(path)
        return _found(path, made.found, made)
    try:
        run = RunFolder(path)
    except RunError as error:
        if not (path / "run.json").exists():
            raise
        return _found(path, Check(faults=[str(error).partition("; keep the intact")[0]]), None)
    return _found(path, check(run), None)


def _found(path: Path, found: Check, made: Repaired | None) -> dict[str, Any]:

    following = []
    if found.faults and made is None:
        following = [f"evigraph check {quoted(path)} --repair"]
    elif made is not None and made.resumable:
        following = [f"evigraph resume {quoted(path)}"]
    return {
        "run": str(path),
        "faults": found.faults,
        "cases": len(found.statuses),
        "lost_cases": found.lost_cases,
        "calls": found.calls,
        "lost_calls": found.lost_calls,
        "damaged_files": None if made is None or made.aside is None else str(made.aside),
        "next": following,
    }


def _journal(path: Path, *, repair: bool) -> dict[str, Any]:
    """Check a journal by itself, such as a pool's."""
    from serving.journal.repair import look
    from serving.journal.repair import repair as repair_journal

    aside = path.with_name(f"{path.name}.damaged")
    found = repair_journal(path, aside) if repair else look(path)
    following = [f"evigraph check {quoted(path)} --repair"] if found.faults and not repair else []
    return {
        "run": str(path),
        "faults": found.faults,
        "cases": 0,
        "lost_cases": [],
        "calls": found.calls,
        "lost_calls": found.lost,
        "damaged_files": str(aside) if repair else None,
        "next": following,
    }


def _print(found: dict[str, Any]) -> None:
    for fault in found["faults"]:
        print_line(fault, "yellow")
    whole = f"{plural(found['cases'], 'ended case')}, {plural(found['calls'], 'stored call')}"
    if not found["faults"]:
        print_line(f"whole: {whole}")
        return
    print_line(f"whole   {whole}")
    lost = f"{plural(len(found['lost_cases']), 'case')}, {plural(found['lost_calls'], 'stored call')}"
    print_line(f"lost    {lost}")
    if found["damaged_files"]:
        print_line(f"aside   {found['damaged_files']}")
    for command in found["next"]:
        print_line(f"next    {command}")
