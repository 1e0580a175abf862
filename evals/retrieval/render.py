"""A report of retrieval as tables, as JSON and as a page; numbers alone, no text of a case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from evals.pages.page import render_page
from evals.pages.plots import DASHES, DOWN, INK, MUTED, UP, drawing, note_at, percent_axes
from evals.pages.tables import POINTS, Cell, Column, Row, Table, columns, interval_object
from evals.retrieval.report import COLUMNS, FloorCurve, RetrievalReport, RetrievalTable
from evals.retrieval.scored import FLOORS

_SHORT = ("P", "R", "F1", "macro F1", "AP")
_WITH_INTERVAL = "F1"
_STYLES = ((UP, "-"), (DOWN, "-"), (INK, "-"), (MUTED, "-"), (MUTED, DASHES))


def value_table(table: RetrievalTable) -> Table:
    """All values over their intervals."""
    rows: list[Row] = [
        [row.name, f"{row.retrieved:.1f}", *(POINTS.cell(row.values.get(one)) for one in COLUMNS)]
        for row in table.rows
    ]
    return Table(columns("", "retrieved", *COLUMNS), rows, table.title, table.caption)


def short_table(table: RetrievalTable) -> Table:
    """The values that matter most, and the interval of F1 beside it."""
    heads = columns(table.title, "retrieved", *_SHORT)
    place = 2 + _SHORT.index(_WITH_INTERVAL) + 1
    heads.insert(place, Column("95 %", "text"))
    rows = []
    for row in table.rows:
        values = [POINTS.cell(row.values.get(column)).text for column in _SHORT]
        cells = [row.name, f"{row.retrieved:.1f}", *values]
        cells.insert(place, POINTS.bracket(row.values.get(_WITH_INTERVAL)))
        rows.append(cells)
    return Table(heads, rows, caption=table.caption)


def floor_table(curves: Sequence[FloorCurve], *, with_f1: bool = False) -> Table:
    """Precision and recall of each truncation by its floor; under F1, if that is wanted."""

    def cell(precision: float, recall: float, f1: float) -> Cell:
        if with_f1:
            return Cell(f"{f1:.1f}", (f"{precision:.1f} / {recall:.1f}",))
        return Cell(f"{precision:.0f} / {recall:.0f}")

    head = "F1 (P / R)" if with_f1 else "P / R with at least"
    rows: list[Row] = [[curve.name, *(cell(*scores) for _, *scores in _points(curve))] for curve in curves]
    return Table(columns(head, *map(str, FLOORS)), rows)


def as_json(report: RetrievalReport) -> dict[str, Any]:
    """One object; values in points of 100, intervals null where there is none."""
    return {
        "ranker": report.ranker,
        "query": report.query,
        "examples": report.examples,
        "unlabelled": report.unlabelled,
        "sentences": report.sentences,
        "evidence": report.evidence,
        "longest": report.longest,
        "tables": {
            table.name: [
                {
                    "name": row.name,
                    "cutoff": row.cutoff,
                    "retrieved": row.retrieved,
                    "values": {column: interval_object(its) for column, its in row.values.items()},
                }
                for row in table.rows
            ]
            for table in report.tables
        },
        "floors": {
            curve.name: [
                {"floor": floor, "precision": precision, "recall": recall, "f1": f1}
                for floor, precision, recall, f1 in _points(curve)
            ]
            for curve in report.floors
        },
    }


def _points(curve: FloorCurve) -> Iterator[tuple[int, float, float, float]]:
    """Floor, precision, recall and F1."""
    return zip(FLOORS, curve.precision, curve.recall, curve.f1, strict=True)


def render(report: RetrievalReport) -> str:
    """The page."""
    return render_page(
        "retrieval.html",
        report=report,
        floors=FLOORS,
        value_table=value_table,
        floor_table=floor_table,
        floor_plot=floor_plot,
    )


def floor_plot(curves: Sequence[FloorCurve]) -> str:
    """Micro precision against recall, a line a truncation and a point a floor.

    Floors that change nothing lie on one point; the floors of the first truncation are named.
    """
    with drawing("floors", 6.4, 4.6) as made:
        axes = made.axes
        for curve, (colour, line) in zip(curves, _STYLES, strict=False):
            axes.plot(
                curve.recall,
                curve.precision,
                marker="o",
                color=colour,
                linestyle=line,
                markersize=4,
                label=curve.name,
            )
        for curve in curves[:1]:
            for floor, precision, recall, _ in _points(curve):
                note_at(axes, str(floor), (recall, precision), (5, 5), color=_STYLES[0][0])
        percent_axes(axes, "recall, %", "precision, %")
        axes.legend(frameon=False, labelcolor=INK)
    return made.svg
