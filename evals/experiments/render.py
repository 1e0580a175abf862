"""Tables of an experiment as Markdown for people and as CSV for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from evals.experiments.tables import TITLES, PaperTable, Unit
from evals.statistics.bootstrap import Interval

_NOTE = (
    "Brackets: 95 % intervals, paired bootstrap over cases (BCa). Difference: to the first row, in the"
    " column {headline}; p: exchange of the two rows' outputs case by case."
)


def markdown(tables: Sequence[PaperTable], notes: Sequence[str]) -> str:
    """All tables, one below the other."""
    parts = ["# Tables of the experiment\n", *(f"{note}\n" for note in notes)]
    for table in tables:
        parts += [_markdown(table), ""]
    return "\n".join(parts)


def comma_separated(tables: Sequence[PaperTable]) -> str:
    """One line a value: table, row, column, value, low, high, in the table's unit."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(["table", "row", "column", "value", "low", "high", "cases"])
    for table in tables:
        for row in table.rows:
            for column, value in zip(table.columns, row.values, strict=True):
                numbers = ["", "", ""] if value is None else [_number(part, table.unit) for part in value[:3]]
                writer.writerow([table.table, row.name, column, *numbers, table.cases])
    return written.getvalue()


def _markdown(table: PaperTable) -> str:
    compared = len(table.rows) > 1
    heads = ["", *table.columns, *(["Difference", "p"] if compared else [])]
    lines = [
        f"## Table {table.table}. {TITLES[table.table]}\n",
        f"{table.cases} cases that every row has done.\n",
        "| " + " | ".join(heads) + " |",
        "|---" + "|--:" * (len(heads) - 1) + "|",
    ]
    for row in table.rows:
        cells = [row.name, *(cell_text(value, table.unit) for value in row.values)]
        if compared:
            cells.append(cell_text(row.difference, table.unit, signed=True) if row.difference else "")
            cells.append("" if row.p_value is None else f"{row.p_value:.3f}")
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    lines += [f"{column}: not computed: {reason}." for column, reason in table.not_computed.items()]
    lines.append("")
    lines.append(_NOTE.format(headline=table.headline))
    return "\n".join(lines)


def cell_text(interval: Interval | None, unit: Unit, *, signed: bool = False) -> str:
    """A value with its interval in brackets, in the table's unit."""
    return " ".join(filter(None, cell_parts(interval, unit, signed=signed)))


def cell_parts(interval: Interval | None, unit: Unit, *, signed: bool = False) -> tuple[str, str]:
    """The value, and its interval in brackets or nothing."""
    if interval is None:
        return "-", ""
    value, low, high = (_number(part, unit, signed=signed) for part in interval[:3])
    return value, "" if interval.method == "none" else f"[{low}, {high}]"


def _number(value: float, unit: Unit, *, signed: bool = False) -> str:
    sign = "+" if signed else ""
    return f"{value / 100:{sign}.4f}" if unit == "share" else f"{value:{sign}.2f}"
