"""A report of search as tables, as JSON and as a page; numbers alone, no text of a question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from evals.pages.page import render_page
from evals.pages.plots import DOWN, INK, MUTED, UP, drawing, interval_plot, legend_above
from evals.pages.tables import NO_VALUE, Cell, Column, Format, Row, Table, interval_object, p_text
from evals.search.report import MAP, NDCG, TEST, SearchReport, SearchTable, Value

_DIGITS = Format(3)
_STYLES = ((MUTED, "--"), (UP, "-"), (DOWN, "-"), (INK, "-"), (UP, ":"), (DOWN, ":"), (INK, ":"))


def table_of(table: SearchTable) -> Table:
    """Values over their intervals, and over what tells them from the first row."""
    rows: list[Row] = [
        [row.name, *(_cell(row.values.get(column)) for column in table.columns)] for row in table.rows
    ]
    return Table(
        [Column("", "text", short=table.title), *map(Column, table.columns)], rows, table.title, table.caption
    )


def _cell(value: Value | None) -> Cell:
    if value is None:
        return Cell(NO_VALUE, ("",))
    below = [_DIGITS.bracket(value.interval)]
    if value.difference is not None and value.p_value is not None:
        gain = _DIGITS.number(value.difference.value, signed=True)
        below.append(f"{gain}, p {p_text(value.p_value, equals=True)}")
    return Cell(_DIGITS.number(value.interval.value), tuple(below))


def as_json(report: SearchReport) -> dict[str, Any]:
    """One object; values from 0 to 1, intervals null where there is none."""
    return {
        **{name: value for name, value in asdict(report).items() if name != "tables"},
        "tables": {
            table.name: [
                {"name": row.name, "values": {column: _value(its) for column, its in row.values.items()}}
                for row in table.rows
            ]
            for table in report.tables
        },
    }


def _value(value: Value) -> dict[str, Any]:
    found: dict[str, Any] = interval_object(value.interval)
    if value.difference is not None:
        found |= {"difference": interval_object(value.difference), "p_value": value.p_value}
    return found


def render(report: SearchReport) -> str:
    """The page."""
    return render_page("search.html", report=report, table_of=table_of, plots=_plots)


def _plots(report: SearchReport, table: SearchTable) -> Iterator[str]:
    headline = {"retrieval": NDCG, "ensemble": f"{NDCG} {TEST}"}.get(table.name)
    if headline is not None:
        rows = [(row.name, row.values[headline].interval) for row in table.rows]
        yield interval_plot(rows, headline, table.name)
        return
    if len(report.depths) > 1:
        yield depth_plot(table, MAP, report.depths)
    if len(set(report.trained_on.values())) > 1:
        yield learning_curve(table, f"{NDCG} of {max(report.depths):,}", report.trained_on)


def depth_plot(table: SearchTable, measure: str, depths: Sequence[int]) -> str:
    """A line a reranker over the number of retrieved documents that it was given."""
    with drawing("depths", 7.2, 4.2) as made:
        axes = made.axes
        places = range(len(depths))
        for number, row in enumerate(table.rows):
            colour, line = _STYLES[number % len(_STYLES)]
            values = [row.values[f"{measure} of {depth:,}"].interval.value for depth in depths]
            axes.plot(places, values, color=colour, linestyle=line, marker="o", markersize=4, label=row.name)
        axes.set_xticks(list(places), [f"{depth:,}" for depth in depths])
        axes.set_xlabel("retrieved documents")
        axes.set_ylabel(measure)
        legend_above(axes)
    return made.svg


def learning_curve(table: SearchTable, column: str, trained_on: Mapping[str, int]) -> str:
    """Rerankers by how many questions they learned from, against the documents as they were retrieved."""
    points = sorted(
        ((trained_on[row.name], row) for row in table.rows if row.name in trained_on),
        key=lambda point: point[0],
    )
    plain = table.rows[0].values[column].interval
    with drawing("learning", 7.2, 4.2) as made:
        axes = made.axes
        axes.axhline(plain.value, color=MUTED, linestyle="--", linewidth=1.2, label=table.rows[0].name)
        axes.axhspan(plain.low, plain.high, color=MUTED, alpha=0.12, linewidth=0)
        counts = [count for count, _ in points]
        values = [row.values[column].interval for _, row in points]
        below = [one.value - one.low for one in values]
        above = [one.high - one.value for one in values]
        axes.errorbar(
            counts,
            [one.value for one in values],
            yerr=[below, above],
            color=UP,
            marker="o",
            markersize=5,
            capsize=3,
            label="trained reranker",
        )
        axes.set_xlim(left=0)
        axes.set_xlabel("questions learned from")
        axes.set_ylabel(column)
        legend_above(axes)
    return made.svg
