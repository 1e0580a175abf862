"""`evigraph show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from cli.options import CaseArgument, JsonOption, RunFolderArgument
from cli.terminal import output, print_json, print_line, safe

if TYPE_CHECKING:
    from rich.text import Text

    from runs.folder import Line, RunFolder

_WIDE = 110
_COLOURS = {"done": "green", "failed": "red", "waiting": "yellow"}


def show(
    run: RunFolderArgument,
    case: CaseArgument = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only failed cases.")] = False,
    rows: Annotated[int, typer.Option(min=1, help="Most cases to list.")] = 50,
    calls: Annotated[
        bool, typer.Option("--calls", help="With CASE: every prompt and reply as well.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a run's cases, or what every node decided on one case.

    Example: evigraph show out/2026-11-21T10-15-tamu-ab12 101
    """
    from cli.show_case import show_case
    from runs.folder import RunFolder

    folder = RunFolder(run)
    if case is None:
        _print_run(folder, only_failed=failed, rows=rows, as_json=as_json)
    elif as_json:
        print_json({"case": folder.require_case(case), "trace": folder.trace(case)})
    else:
        show_case(folder, case, with_calls=calls)


def _print_run(folder: RunFolder, *, only_failed: bool, rows: int, as_json: bool) -> None:
    """Print up to `rows` cases, and the summary."""
    from itertools import islice

    from cli.summary import summarise
    from runs.purged import purged_of

    lines = (line for line in folder.cases() if not only_failed or line["status"] == "failed")
    shown = list(islice(lines, rows))
    summary = summarise(folder)
    purged = purged_of(folder.path)
    if as_json:
        also = {} if purged is None else {"purged": {"at": purged.at, "cases": len(purged.cases)}}
        print_json({**summary.as_json(), **also, "rows": shown})
        return
    console = output()
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("case", min_width=4, overflow="fold")
    table.add_column("status", min_width=6, no_wrap=True)
    narrow = console.width < _WIDE
    table.add_column("intent", max_width=20 if narrow else None, no_wrap=True, overflow="ellipsis")
    for name in ("essential", "agree", "words"):
        table.add_column(name, no_wrap=True)
    table.add_column("notes", overflow="fold", ratio=1)
    for line in shown:
        table.add_row(*_row(line))
    console.print(table)
    rest = sum(1 for _ in lines)
    if rest:
        print_line(f"... and {rest} more: --rows {rows + rest} shows all")
    print_line()
    if purged is not None:
        print_line(purged.words, "yellow")
    summary.print()


def _row(line: Line) -> list[str | Text]:

    essential = sum(label == "essential" for label in line["labels"].values())
    intent = (line.get("intent") or {}).get("primary")
    answer = line.get("answer")
    error = line["error"]
    notes = f"{error['class']}: {error['message']}" if error else ", ".join(line["flags"]).replace("_", " ")
    return [
        safe(line["case_id"]),
        safe(line["status"], _COLOURS[line["status"]]),
        safe(intent or "-"),
        f"{essential} of {len(line['labels'])}" if line["labels"] else "-",
        _agreement(line),
        str(len(answer.split())) if answer else "-",
        safe(notes),
    ]


def _agreement(line: Line) -> str:
    """Share of sentences on which all votes agree."""
    from nodes.evidence.disagreement import disagreement

    counts, votes = line.get("vote_counts"), line.get("usable_votes")
    if not counts or not votes:
        return "-"
    return f"{1 - disagreement(counts, votes):.0%}"
