"""The table of a run's cases."""

from __future__ import annotations

from itertools import islice

from rich.table import Table
from rich.text import Text

from cli.summary import summarise
from cli.terminal import output, print_json, safe
from nodes.evidence.disagreement import disagreement
from runs.folder import Line, RunFolder

_WIDE = 110
_COLOURS = {"done": "green", "failed": "red", "waiting": "yellow"}


def show_run(folder: RunFolder, *, only_failed: bool, rows: int, as_json: bool) -> None:
    """Print up to `rows` cases, and the summary."""
    lines = (line for line in folder.cases() if not only_failed or line["status"] == "failed")
    shown = list(islice(lines, rows))
    summary = summarise(folder)
    if as_json:
        print_json({**summary.as_json(), "rows": shown})
        return
    console = output()
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("case", min_width=4, overflow="fold")
    table.add_column("status", min_width=6, no_wrap=True)
    narrow = console.width < _WIDE
    table.add_column("intent", max_width=20 if narrow else None, no_wrap=True, overflow="ellipsis")
    for name in ("essential", "agree", "words"):
        table.add_column(name, no_wrap=True)
    table.add_column("remarks", overflow="fold", ratio=1)
    for line in shown:
        table.add_row(*_row(line))
    console.print(table)
    rest = sum(1 for _ in lines)
    if rest:
        console.print(f"... and {rest} more: --rows {rows + rest} shows all")
    console.print()
    summary.print()


def _row(line: Line) -> list[str | Text]:
    essential = sum(label == "essential" for label in line["labels"].values())
    intent = line["intent"]["primary"] if line["intent"] else None
    answer = line["answer"]
    error = line["error"]
    remarks = f"{error['class']}: {error['message']}" if error else ", ".join(line["flags"]).replace("_", " ")
    return [
        safe(line["case_id"]),
        safe(line["status"], _COLOURS[line["status"]]),
        safe(intent or "-"),
        f"{essential} of {len(line['labels'])}" if line["labels"] else "-",
        _agreement(line),
        str(len(answer.split())) if answer else "-",
        safe(remarks),
    ]


def _agreement(line: Line) -> str:
    """Share of sentences on which all votes agree."""
    counts, votes = line["vote_counts"], line["usable_votes"]
    if not counts or not votes:
        return "-"
    return f"{1 - disagreement(counts, votes):.0%}"
