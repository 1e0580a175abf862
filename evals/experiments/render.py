"""Tables of an experiment as Markdown and a page for people, as CSV and JSON for programs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple
from typing import Any

from cases.texts import plural
from evals.experiments.tables import TITLES, Compared, Costs, PaperTable, TableRow, Unit
from evals.pages.page import render_page
from evals.pages.plots import interval_plot
from evals.pages.tables import (
    POINTS,
    SHARES,
    Column,
    Format,
    Table,
    Value,
    comma_separated,
    interval_object,
    markdown,
    numbers,
)

FORMATS: Mapping[Unit, Format] = {"share": SHARES, "points": POINTS, "of 1": Format(4)}
_NARROW = Format(3, over=100)
"""Format of a table with many columns."""

BRACKETS = "Brackets: 95 % intervals, paired bootstrap over cases (BCa)."
COSTS = (
    "Average cost of a case. Calls and tokens count as if every call had been made; those that another"
    " cell made before are replayed and take no processor time. Processor time covers this"
    " process and the models in it, not servers."
)


def note_of(paper: PaperTable) -> str:
    """How the differences of a table were made, and its costs."""
    if paper.note:
        return paper.note
    test = f"in the column {paper.headline}; p: exchange of the two rows' outputs case by case"
    if paper.baseline is None:
        return f"Difference: to the first row, {test}."
    return (
        f"Differences: to the first row and to {paper.baseline}, {test}, corrected for the number of rows"
        " (Holm)."
    )


def table_of(paper: PaperTable, *, headline_only: bool = False) -> Table:
    """Rows with their columns, or to save space the headline alone, and differences to the first row."""
    form = _form(paper)
    shown = [paper.headline] if headline_only else paper.columns
    heads = [Column("", "text", wraps=paper.baseline is None), *(Column(name, form=form) for name in shown)]
    references = _references(paper)
    for title, _ in references:
        heads += [Column(title, form=form, signed=True), Column(f"p {title}", short="p", form=None)]
    narrow = headline_only and paper.baseline is not None
    if narrow:
        heads += [Column("calls", form=Format(1)), Column("s", form=Format(1))]
    rows = []
    for row in paper.rows:
        values = dict(zip(paper.columns, row.values, strict=True))
        cells: list[Value] = [row.name, *(values.get(column) for column in shown)]
        for _, found in references:
            compared = found.get(row.name)
            if compared is None:
                cells += ["", ""]
            else:
                gain = compared.difference
                cells += [gain.value if narrow else gain, compared.p_value]
        if narrow:
            cells += [row.costs.calls, row.costs.processor_seconds] if row.costs else [0.0, ""]
        rows.append(cells)
    return Table(heads, rows)


def _references(paper: PaperTable) -> list[tuple[str, dict[str, Compared]]]:
    """Rows to compare with: the first, and the baseline if present."""
    to_first = {row.name: row.to_first for row in paper.rows if row.to_first is not None}
    if paper.baseline is None:
        return [("to the first row", to_first)] if len(paper.rows) > 1 else []
    to_baseline = {row.name: row.to_baseline for row in paper.rows if row.to_baseline is not None}
    return [(f"to {paper.rows[0].name}", to_first), (f"to {paper.baseline}", to_baseline)]


def costs_of(paper: PaperTable) -> Table:
    """Costs of a case, by row."""
    heads = [Column("", "text"), Column("calls", form=Format(1))]
    heads += [Column("tokens in", form=Format(0)), Column("tokens out", form=Format(0))]
    heads += [Column("processor s", form=Format(1)), Column("calls replayed, %", form=Format(0, times=100))]
    rows = [[row.name, *astuple(row.costs or Costs(0, 0, 0, None))] for row in paper.rows]
    return Table(heads, rows)


def _form(paper: PaperTable) -> Format:
    return FORMATS[paper.unit] if paper.baseline is None else _NARROW


def title_of(paper: PaperTable) -> str:
    """With the number that a paper gave it; ours has none."""
    title = f"{TITLES[paper.table]}: {paper.part}" if paper.part else TITLES[paper.table]
    return title if paper.table in ("evidence", "scores") else f"Table {paper.table}. {title}"


def as_markdown(tables: Sequence[PaperTable], notes: Sequence[str]) -> str:
    """All tables, one below the other."""
    parts = ["# Tables of the experiment\n", *(f"{note}\n" for note in notes)]
    for table in tables:
        reasons = [f"{column}: not computed: {reason}." for column, reason in table.not_computed.items()]
        parts += [
            f"## {title_of(table)}\n",
            f"{plural(table.cases, 'case')} that every row has done.\n",
            markdown(table_of(table)),
            "",
            *reasons,
            "",
            note_of(table) if table.note else f"{BRACKETS} {note_of(table)}",
            "",
            *([markdown(costs_of(table)), "", COSTS, ""] if table.baseline is not None else []),
        ]
    return "\n".join(parts)


def as_csv(tables: Sequence[PaperTable]) -> str:
    """One line a value: table, row, column, value, low, high, in the table's unit."""
    lines = [
        [": ".join(filter(None, (one.table, one.part))), *line, one.cases]
        for one in tables
        for shown in (table_of(one), *([costs_of(one)] if one.baseline is not None else []))
        for line in numbers(shown)
    ]
    return comma_separated(("table", "row", "column", "value", "low", "high", "cases"), lines)


def as_object(table: PaperTable) -> dict[str, Any]:
    """For programs; values as in `PaperTable`."""
    made = {
        "table": table.table,
        "unit": table.unit,
        "columns": table.columns,
        "rows": [_row_object(table, row) for row in table.rows],
        "cases": table.cases,
        "headline": table.headline,
        "not_computed": dict(table.not_computed),
    }
    further = {"baseline": table.baseline, "part": table.part}
    return made | {name: value for name, value in further.items() if value}


def _row_object(table: PaperTable, row: TableRow) -> dict[str, Any]:
    values = {
        column: None if value is None else interval_object(value)
        for column, value in zip(table.columns, row.values, strict=True)
    }
    made = {"name": row.name, "values": values, **_compared_object(row.to_first)}
    if table.baseline is None:
        return made
    costs = None if row.costs is None else asdict(row.costs)
    return made | _compared_object(row.to_baseline, "_to_baseline") | {"costs": costs}


def _compared_object(found: Compared | None, suffix: str = "") -> dict[str, Any]:
    return {
        f"difference{suffix}": None if found is None else interval_object(found.difference),
        f"p_value{suffix}": None if found is None else found.p_value,
    }


def as_page(tables: Sequence[PaperTable], notes: Sequence[str]) -> str:
    """All tables with a plot each, one below the other."""
    return render_page(
        "experiment.html",
        tables=tables,
        notes=notes,
        title_of=title_of,
        note_of=note_of,
        brackets=BRACKETS if any(not table.note for table in tables) else "",
        table_of=table_of,
        costs_of=costs_of,
        costs_note=COSTS,
        headline_plot=_headline_plot,
    )


def _headline_plot(table: PaperTable) -> str:
    place = table.columns.index(table.headline)
    rows = [(row.name, row.values[place]) for row in table.rows]
    name = re.sub(r"\W", "-", f"table{table.table}{table.part}")
    return interval_plot(rows, table.headline, name, scale=1 / _form(table).over)
