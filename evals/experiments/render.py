"""Tables of an experiment as Markdown and a page for people, as CSV and JSON for programs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from cases.texts import plural
from evals.experiments.tables import TITLES, Compared, Costs, PaperTable, TableRow, Unit
from evals.pages.page import render_page
from evals.pages.plots import interval_plot
from evals.pages.tables import (
    POINTS,
    SHARES,
    Cell,
    Column,
    Format,
    Table,
    columns,
    comma_separated,
    markdown,
    p_text,
)
from evals.statistics.bootstrap import Interval

FORMATS: Mapping[Unit, Format] = {"share": SHARES, "points": POINTS}
_NARROW = Format(3, over=100)
"""Of a table with many columns."""

BRACKETS = "Brackets: 95 % intervals, paired bootstrap over cases (BCa)."
COSTS = (
    "What a case costs on average. Calls and tokens count as if every call had been made; those that another"
    " cell had made before are replayed, and take no processor time again. Processor time is that of this"
    " process and the models in it, not that of servers."
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
    """Rows with their columns, or the headline alone, and their differences to the first row.

    Args:
        paper: What is shown.
        headline_only: For where there is little room.
    """
    form = _form(paper)
    shown = (paper.headline,) if headline_only else paper.columns
    heads = columns("", *shown)
    if paper.baseline is not None:
        heads = [Column("", "text", wraps=False), *heads[1:], *_references(paper, short=headline_only)]
    elif headline_only or len(paper.rows) > 1:
        heads += map(Column, ("to the first row" if headline_only else "Difference", "p"))

    def cells(row: TableRow) -> list[Cell | str]:
        values = dict(zip(paper.columns, row.values, strict=True))
        made: list[Cell | str] = [row.name, *(form.cell(values.get(column)) for column in shown)]
        if paper.baseline is None:
            return [*made, *_compared(form, row.to_first)][: len(heads)]
        for found in (row.to_first, row.to_baseline):
            made += _short(form, found) if headline_only else [_with_p(form, found)]
        return [*made, *(_costs(row.costs)[::3] if headline_only else ())]

    return Table(heads, [cells(row) for row in paper.rows])


def costs_of(paper: PaperTable) -> Table:
    """What a case of each row costs."""
    heads = columns("", "calls", "tokens in", "tokens out", "processor s", "calls replayed")
    return Table(heads, [[row.name, *_costs(row.costs)] for row in paper.rows])


def _references(paper: PaperTable, *, short: bool) -> list[Column]:
    """Differences to the first row and to the baseline; where there is little room, p and costs beside."""
    references = [f"to {name}" for name in (paper.rows[0].name, paper.baseline)]
    if not short:
        return [*map(Column, references)]
    return [*(Column(title) for name in references for title in (name, "p")), *map(Column, ("calls", "s"))]


def _form(paper: PaperTable) -> Format:
    return FORMATS[paper.unit] if paper.baseline is None else _NARROW


def _compared(form: Format, found: Compared | None) -> list[Cell | str]:
    """Difference and p, each in a column."""
    if found is None:
        return ["", ""]
    return [form.cell(found.difference, signed=True), f"{found.p_value:.3f}"]


def _short(form: Format, found: Compared | None) -> list[Cell | str]:
    """The same without the interval."""
    return [one.text if isinstance(one, Cell) else one for one in _compared(form, found)]


def _with_p(form: Format, found: Compared | None) -> Cell | str:
    """Difference over its interval and p."""
    if found is None:
        return ""
    cell = form.cell(found.difference, signed=True)
    return cell._replace(below=(*cell.below, f"p {p_text(found.p_value, equals=True)}"))


def _costs(costs: Costs | None) -> list[str]:
    """Calls, tokens read and written, processor time, share of the calls replayed."""
    if costs is None:
        return ["0", "0", "0", "", ""]
    tokens = (f"{number:,.0f}" for number in (costs.input_tokens, costs.output_tokens))
    seconds = "" if costs.processor_seconds is None else f"{costs.processor_seconds:.1f}"
    return [f"{costs.calls:.1f}", *tokens, seconds, f"{costs.shared:.0%}"]


def title_of(paper: PaperTable) -> str:
    """With the number that a paper gave it; ours has none."""
    title = f"{TITLES[paper.table]}: {paper.part}" if paper.part else TITLES[paper.table]
    return title if paper.table == "evidence" else f"Table {paper.table}. {title}"


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
        [": ".join(filter(None, (table.table, table.part))), row.name, column, *numbers, table.cases]
        for table in tables
        for row in table.rows
        for column, numbers in _numbers(table, row)
    ]
    return comma_separated(("table", "row", "column", "value", "low", "high", "cases"), lines)


def _numbers(table: PaperTable, row: TableRow) -> Iterator[tuple[str, list[str]]]:
    """Value and ends of the interval of each column; where there is none, the ends are empty."""
    form = _form(table)

    def of(interval: Interval | None) -> list[str]:
        return (
            ["", "", ""]
            if interval is None
            else ["" if math.isnan(part) else form.number(part) for part in interval[:3]]
        )

    for column, value in zip(table.columns, row.values, strict=True):
        yield column, of(value)
    if table.baseline is None:
        return
    for name, found in ((table.rows[0].name, row.to_first), (table.baseline, row.to_baseline)):
        if found is not None:
            yield f"{table.headline} to {name}", of(found.difference)
            yield f"p to {name}", [f"{found.p_value:.4f}", "", ""]
    if row.costs is not None:
        for column, number in asdict(row.costs).items():
            yield column, ["" if number is None else f"{number:.3f}", "", ""]


def as_object(table: PaperTable) -> dict[str, Any]:
    """For programs; values in points of 100."""
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
    made = {
        "name": row.name,
        "values": {
            column: None if value is None else _interval_object(value)
            for column, value in zip(table.columns, row.values, strict=True)
        },
        **_compared_object(row.to_first),
    }
    if table.baseline is None:
        return made
    return made | {
        **_compared_object(row.to_baseline, "_to_baseline"),
        "costs": None if row.costs is None else asdict(row.costs),
    }


def _compared_object(found: Compared | None, suffix: str = "") -> dict[str, Any]:
    return {
        f"difference{suffix}": None if found is None else _interval_object(found.difference),
        f"p_value{suffix}": None if found is None else found.p_value,
    }


def _interval_object(interval: Interval) -> dict[str, Any]:
    """Ends are null where there is no interval."""
    values = interval._asdict().items()
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in values}


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
