"""Tables of retrieval in the terminal."""

from __future__ import annotations

from rich.table import Table

from cli.terminal import output, safe
from evals.experiments.render import cell_parts
from evals.retrieval.report import FloorCurve, RetrievalReport, RetrievalTable
from evals.retrieval.strategies import FLOORS

_SHOWN = ("P", "R", "F1", "macro F1", "AP")
_WITH_INTERVAL = "F1"


def print_retrieval(report: RetrievalReport) -> None:
    """Print all tables; precision, recall and F1 without a word are micro."""
    console = output()
    console.print(
        safe(
            f"{report.examples:,} labelled examples; {report.evidence:,} of {report.sentences:,} sentences"
            f" are evidence; the longest document has {report.longest:,}"
        ),
        soft_wrap=True,
    )
    if report.unlabelled:
        console.print(safe(f"not labelled by people, and left out: {report.unlabelled:,}", "yellow"))
    for table in report.tables:
        _print_table(table)
    _print_floors(report.floors)


def _print_table(table: RetrievalTable) -> None:
    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    shown.add_column(safe(table.title), overflow="fold")
    shown.add_column("retrieved", justify="right")
    for column in _SHOWN:
        shown.add_column(column, justify="right")
        if column == _WITH_INTERVAL:
            shown.add_column("95 %")
    for row in table.rows:
        cells = []
        for column in _SHOWN:
            value, interval = cell_parts(row.values.get(column), "points")
            cells += [value, interval] if column == _WITH_INTERVAL else [value]
        shown.add_row(safe(row.name), f"{row.retrieved:.1f}", *(safe(cell) for cell in cells))
    console = output()
    console.print()
    console.print(safe(table.caption), soft_wrap=True)
    console.print(shown)


def _print_floors(curves: tuple[FloorCurve, ...]) -> None:
    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    shown.add_column("P / R with at least")
    for floor in FLOORS:
        shown.add_column(str(floor), justify="right")
    for curve in curves:
        pairs = zip(curve.precision, curve.recall, strict=True)
        shown.add_row(curve.name, *(f"{precision:.0f} / {recall:.0f}" for precision, recall in pairs))
    output().print()
    output().print(shown)
