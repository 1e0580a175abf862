"""`evigraph status`."""

from __future__ import annotations

from rich.table import Table

from cli.options import JsonOption, RunFolderArgument


def status(run: RunFolderArgument, as_json: JsonOption = False) -> None:
    """Show how far a run is, and which of its calls are away in batches.

    Nothing is asked: the state of a batch is as it was when a session of the run last looked.

    Example: evigraph status last
    """
    from cli.terminal import duration, output, plural, print_json, print_line, safe
    from runs.execute.reply_quality import ReplyQuality
    from runs.record.folder import RunFolder
    from runs.record.manifest import Counts, quoted
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
    if as_json:
        print_json(
            {
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
        )
        return
    print_line(
        f"{run}: {status}; {counts.done:,} of {plural(cases, 'case')} done,"
        f" {counts.failed:,} failed, {cases - counts.total:,} open",
        soft_wrap=True,
    )
    for name, text in quality.rows().items():
        print_line(f"{name}: {text}", soft_wrap=True)
    if away.batches:
        table = Table(box=None, pad_edge=False)
        for name in ("batch", "at", "state"):
            table.add_column(name, overflow="fold")
        for name in ("calls", "answered", "since", "expires in"):
            table.add_column(name, justify="right")
        for one in away.batches:
            table.add_row(
                safe(one.id or "(not known)"),
                safe(one.endpoint),
                one.state,
                f"{one.calls:,}",
                "-" if one.done is None else f"{one.done:,}",
                duration(one.age),
                "-" if one.left is None else duration(one.left),
            )
        output().print(table)
    if away.ended:
        rows = ", ".join(f"{number:,} {name}" for name, number in away.rows.items()) or "no rows"
        ended = f"{away.ended:,} batch{'es' * (away.ended != 1)}"
        print_line(f"{ended} ended: {rows}", soft_wrap=True)
    if away.failures:
        failed = ", ".join(f"{number:,} {name}" for name, number in sorted(away.failures.items()))
        print_line(f"calls that failed in batches: {failed}; ask again: evigraph retry {quoted(run)}")
    if status not in ("finished", "running"):
        print_line(f"next: {away.next_command(run)}", soft_wrap=True)
