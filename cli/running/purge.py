"""`evigraph purge`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cases.texts import quoted
from cli.options import RunFolderArgument
from cli.terminal import Result, plural, print_line, print_message

if TYPE_CHECKING:
    from runs.record.folder import RunFolder
    from runs.upkeep.purge import Purge


def purge(
    run: RunFolderArgument,
    cases: Annotated[
        list[str] | None, typer.Argument(help="Ids of cases. (default: all)", metavar="[CASE]...")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask. Required without a terminal.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed, and change nothing.")
    ] = False,
) -> Result:
    """Remove case texts and replies from a run's folder; keep numbers, ids and labels.

    It purges the call journal, trace, cases, reviews, forks, the index, and exports inside the folder, and
    lists the deleted files. Case files, pools, exports in other folders and other files stay. The next purge
    completes an interrupted one.

    Exit codes: 0 purged; 2 not done.

    Example: evigraph purge out/2026-11-21T10-15-tamu-ab12 101 --yes
    """
    from runs.record.folder import RunFolder
    from runs.record.manifest import RunError
    from runs.upkeep.purge import plan
    from runs.upkeep.purge import purge as purge_run

    folder = RunFolder(run)
    if folder.manifest.forked_from is not None:
        raise RunError(f"{run} is a fork; purge the run it is of: {quoted(folder.manifest.forked_from.run)}")
    ids = plan(folder, cases or [])
    if dry_run:
        return _plan(folder, ids)
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter("texts are removed for good: give --yes, or look first with --dry-run")
        typer.confirm(f"Remove the texts of {plural(len(ids), 'case')} from {run} for good?", abort=True)
    made = purge_run(folder, ids, _scores(folder), print_message)
    return Result({"run": str(run), **asdict(made)}, partial(_print, made))


def _scores(folder: RunFolder) -> dict[str, Any]:
    """Current output of `evigraph score --json`, which needs the texts."""
    from evals.run_scores import run_scores, without_notes
    from evals.scoring.gold import ScoringError
    from runs.record.manifest import RunError
    from runs.record.purged import purged_of
    from storage.errors import InputError

    if purged_of(folder.path) is not None:
        return {}
    try:
        return without_notes(run_scores(folder))
    except (ScoringError, InputError, RunError) as error:
        print_message(f"no scores are kept: {error}")
        return {}


def _plan(folder: RunFolder, ids: list[str]) -> Result:
    sizes = {
        str(path.relative_to(folder.path)): path.stat().st_size
        for path in sorted(folder.path.rglob("*"))
        if path.is_file()
    }

    def print_plan() -> None:
        print_line(f"texts of {plural(len(ids), 'case')} would be removed from these files:")
        for name, size in sizes.items():
            print_line(f"{size:>14,}  {name}")
        print_line("nothing was changed; purge them with --yes")

    return Result({"run": str(folder.path), "cases": ids, "files": sizes}, print_plan)


def _print(made: Purge) -> None:
    removed = [
        plural(made.calls, "call"),
        plural(made.texts, "text"),
        f"results of {plural(made.lines, 'case')}",
        plural(made.reviews, "review"),
        plural(made.forks, "fork"),
    ]
    print_line(f"purged    {plural(made.cases, 'case')}: {', '.join(removed)}")
    if made.files:
        print_line(f"deleted   {', '.join(made.files)}")
    print_line(f"size      {made.size[0]:,} bytes before, {made.size[1]:,} after")
    for path in made.outside:
        print_line(f"outside   {path}: not touched")
