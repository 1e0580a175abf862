"""`evigraph status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cases.texts import quoted
from cli.options import RunFolderArgument
from cli.terminal import Result, duration, plural, print_line, print_rows

if TYPE_CHECKING:
    from pathlib import Path

    from runs.upkeep.away import Away


def status(run: RunFolderArgument) -> Result:
    """Show a run's progress and its pending batches.

    Nothing is asked: the state of a batch is as it was when a session of the run last looked.

    Example: evigraph status last
    """
    from runs.execute.reply_quality import ReplyQuality
    from runs.record.folder import RunFolder
    from runs.record.manifest import Counts
    from runs.upkeep.away import away_batches

    folder = RunFolder(run)
    status = folder.status
    away = away_batches(run)
    statuses: dict[str, str] = {}
    quality = ReplyQuality(folder.manifest.retries)
    for line in folder.cases():
        statuses[line["case_id"]] = line["status"]
        quality.add_line(line)
    counts = Counts.of(statuses.values())
    cases = folder.manifest.inputs.cases

    def print_status() -> None:
        print_line(
            f"{run}: {status}; {counts.done:,} of {plural(cases, 'case')} done,"
            f" {counts.failed:,} failed, {cases - counts.total:,} open"
        )
        for name, text in quality.rows().items():
            print_line(f"{name}: {text}")
        _print_away(away, run)
        if status not in ("finished", "running"):
            print_line(f"next: {away.next_command(run)}")

    content = {
        "run": str(run),
        "status": status,
        "cases": cases,
        "done": counts.done,
        "failed": counts.failed,
        "waiting": counts.waiting,
        "open": cases - counts.total,
        "calls_away": away.calls,
        "batches": [one.as_json() for one in away.batches],
        "batches_ended": away.ended,
        "rows": dict(away.rows),
        "failed_calls": dict(away.failures),
        **quality.as_json(),
    }
    return Result(content, print_status)


def _print_away(away: Away, run: Path) -> None:

    if away.batches:
        numbers = ("calls", "requests", "answered", "since", "expires in")
        rows = [
            (
                one.id or "(not known)",
                one.endpoint,
                one.state,
                f"{one.calls:,}",
                "-" if one.requests is None else f"{one.requests:,}",
                "-" if one.done is None else f"{one.done:,}",
                duration(one.age),
                "-" if one.left is None else duration(one.left),
            )
            for one in away.batches
        ]
        print_rows(("batch", "at", "state", *numbers), rows, right=numbers)
    if away.ended:
        rows_of = ", ".join(f"{number:,} {name}" for name, number in away.rows.items()) or "none"
        ended = f"{away.ended:,} batch{'es' * (away.ended != 1)}"
        print_line(f"{ended} ended; requests: {rows_of}")
    if away.failures:
        failed = ", ".join(f"{number:,} {name}" for name, number in sorted(away.failures.items()))
        print_line(f"calls that failed in batches: {failed}; ask again: evigraph retry {quoted(run)}")
