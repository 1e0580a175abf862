"""Tables of search in the terminal."""

from __future__ import annotations

from rich.table import Table

from cli.terminal import output, safe
from evals.search.render import against, cell
from evals.search.report import SearchReport, SearchTable


def print_rankings(report: SearchReport) -> None:
    """Print all tables."""
    console = output()
    part = "" if report.part is None else f"part {report.part}: "
    console.print(
        safe(
            f"{part}{report.questions:,} questions with {report.relevant:,} relevant documents,"
            f" {report.documents:,} documents searched"
        ),
        soft_wrap=True,
    )
    if report.missing:
        console.print(safe(f"relevant, and not in the corpus: {report.missing:,} documents", "yellow"))
    if report.unjudged:
        console.print(safe(f"without a relevant document, and left out: {report.unjudged:,} questions"))
    for table in report.tables:
        _print_table(table)


def _print_table(table: SearchTable) -> None:
    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    shown.add_column(safe(table.title), overflow="fold")
    for column in table.columns:
        shown.add_column(column, justify="right")
    for row in table.rows:
        cells = [cell(row.values.get(column)) for column in table.columns]
        shown.add_row(safe(row.name), *(value for value, _ in cells))
        shown.add_row("", *(safe(interval, "dim") for _, interval in cells))
        tests = [against(row.values.get(column)) for column in table.columns]
        if any(tests):
            shown.add_row("", *(safe(test, "dim") for test in tests))
    console = output()
    console.print()
    console.print(safe(table.caption), soft_wrap=True)
    console.print(shown)
