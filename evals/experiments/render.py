"""Tables of an experiment as Markdown and a page for people, as CSV and JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from evals.experiments.tables import TITLES, PaperTable, TableRow, Unit
from evals.pages.page import render_page
from evals.pages.plots import interval_plot
from evals.pages.tables import POINTS, SHARES, Cell, Format, Table, columns, comma_separated, markdown

FORMATS: Mapping[Unit, Format] = {"share": SHARES, "points": POINTS}

_NOTE = (
    "Brackets: 95 % intervals, paired bootstrap over cases (BCa). Difference: to the first row, in the"
    " column {headline}; p: exchange of the two rows' outputs case by case."
)


def table_of(paper: PaperTable, *, headline_only: bool = False) -> Table:
    """Rows with their columns, or the headline alone, and their differences to the first row.

    Args:
        paper: What is shown.
        headline_only: For where there is little room.
    """
    form = FORMATS[paper.unit]
    shown = (paper.headline,) if headline_only else paper.columns
    compared = headline_only or len(paper.rows) > 1
    difference = "to the first row" if headline_only else "Difference"

    def cells(row: TableRow) -> list[Cell | str]:
        values = dict(zip(paper.columns, row.values, strict=True))
        made: list[Cell | str] = [row.name, *(form.cell(values.get(column)) for column in shown)]
        if compared:
            made.append(form.cell(row.difference, signed=True) if row.difference else "")
            made.append("" if row.p_value is None else f"{row.p_value:.3f}")
        return made

    heads = columns("", *shown, *([difference, "p"] if compared else []))
    return Table(heads, [cells(row) for row in paper.rows])


def as_markdown(tables: Sequence[PaperTable], notes: Sequence[str]) -> str:
    """All tables, one below the other."""
    parts = ["# Tables of the experiment\n", *(f"{note}\n" for note in notes)]
    for table in tables:
        reasons = [f"{column}: not computed: {reason}." for column, reason in table.not_computed.items()]
        parts += [
            f"## Table {table.table}. {TITLES[table.table]}\n",
            f"{table.cases} cases that every row has done.\n",
            markdown(table_of(table)),
            "",
            *reasons,
            "",
            _NOTE.format(headline=table.headline),
            "",
        ]
    return "\n".join(parts)


def as_csv(tables: Sequence[PaperTable]) -> str:
    """One line a value: table, row, column, value, low, high, in the table's unit."""
    lines = [
        [
            table.table,
            row.name,
            column,
            *(["", "", ""] if value is None else [FORMATS[table.unit].number(part) for part in value[:3]]),
            table.cases,
        ]
        for table in tables
        for row in table.rows
        for column, value in zip(table.columns, row.values, strict=True)
    ]
    return comma_separated(("table", "row", "column", "value", "low", "high", "cases"), lines)


def as_object(table: PaperTable) -> dict[str, Any]:
    """For programs; values in points of 100."""
    return {
        **asdict(table),
        "rows": [
            {
                "name": row.name,
                "values": {
                    column: None if value is None else value._asdict()
                    for column, value in zip(table.columns, row.values, strict=True)
                },
                "difference": None if row.difference is None else row.difference._asdict(),
                "p_value": row.p_value,
            }
            for row in table.rows
        ],
    }


def as_page(tables: Sequence[PaperTable], notes: Sequence[str]) -> str:
    """All tables with a plot each, one below the other."""
    return render_page(
        "experiment.html",
        tables=tables,
        notes=notes,
        titles=TITLES,
        table_of=table_of,
        headline_plot=_headline_plot,
    )


def _headline_plot(table: PaperTable) -> str:
    place = table.columns.index(table.headline)
    rows = [(row.name, row.values[place]) for row in table.rows]
    return interval_plot(rows, table.headline, f"table{table.table}", scale=1 / FORMATS[table.unit].over)
