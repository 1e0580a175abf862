"""Scores and tables of verdicts for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from cli.terminal import output, safe
from evals.statistics.bootstrap import Interval
from evals.verdicts.classes import Classes
from evals.verdicts.scores import VerdictScores
from evals.verdicts.tables import TITLES, Row, VerdictTable, VerdictTables

_TITLES: dict[Classes, str] = {3: "yes, no or unknown", 2: "yes or no"}
_SHORT = {"macro_precision": "P", "macro_recall": "R", "macro_f1": "F1"}
_FEW = 50
"""Below so many questions differences between rows are mostly chance."""


def print_verdict_scores(origin: str, scored: Sequence[VerdictScores]) -> None:
    """Print each number of answers with its intervals."""
    console = output()
    console.print(safe(origin))
    for one in scored:
        console.print(f"\n[bold]verdict: {_TITLES[one.classes]}[/bold]  {one.cases:,} cases")
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 2))
        table.add_column("")
        table.add_column("", justify="right")
        table.add_column("")
        for name, interval in one.values.items():
            table.add_row(name, f"{interval.value:.2f}", _bracket(interval, one.cases))
        console.print(table)
        console.print(safe(f"  key: {_counts(one.gold)}; given: {_counts(one.given)}"))
        if one.unscored:
            more = ", ..." if one.unscored[3:] else ""
            ids = ", ".join(one.unscored[:3])
            console.print(safe(f"  {len(one.unscored):,} cases are not done ({ids}{more})"))
        for note in one.notes:
            console.print(safe(f"  {note}"), soft_wrap=True)


def print_verdict_tables(found: VerdictTables) -> None:
    """Print each table with macro averages."""
    console = output()
    console.print(safe(f"{found.run}: {found.caption}"), soft_wrap=True)
    if found.questions < _FEW:
        console.print(f"{found.questions} questions are few: see the intervals")
    for one in found.tables:
        console.print()
        console.print(_table(one))
        if one.left_out:
            console.print(safe(f"  the run did not read far enough for {', '.join(one.left_out)}"))
        if one.note:
            console.print(safe(f"  {one.note}"))
    console.print("\n3 and 2: number of answers; macro averages, and the 95 % interval of F1")


def _table(one: VerdictTable) -> Table:
    title = f"table {one.table}: {TITLES[one.table].lower()}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    table.add_column("passages", justify="right")
    table.add_column("none", justify="right")
    for classes in (3, 2):
        for short in _SHORT.values():
            table.add_column(f"{classes}: {short}", justify="right")
        table.add_column("F1, 95 %")
    for row in one.rows:
        table.add_row(safe(row.name), f"{row.passages:.1f}", str(row.without), *_cells(row))
    return table


def _cells(row: Row) -> list[str | Text]:
    cells: list[str | Text] = []
    for scores in row.scores.values():
        if scores is None:
            cells += ["-", "-", "-", ""]
            continue
        cells += [f"{scores.values[name].value:.1f}" for name in _SHORT]
        cells.append(_bracket(scores.values["macro_f1"], scores.cases))
    return cells


def _bracket(interval: Interval, cases: int) -> Text:
    """Brackets would be markup."""
    return safe(f"[{interval.low:.1f}, {interval.high:.1f}]" if cases > 1 else "")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
