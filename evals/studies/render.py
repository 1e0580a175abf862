"""Tables of a study as Markdown and a page for people, as CSV and JSON for programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from cases.texts import plural
from evals.experiments.render import FORMATS
from evals.experiments.tables import Unit
from evals.pages.page import render_page
from evals.pages.plots import interval_plot
from evals.pages.tables import Cell, Column, Table, columns, comma_separated, markdown
from evals.studies.tables import Block, StudyRow, StudyTable


def table_of(block: Block, unit: Unit, *, headline_only: bool = False) -> Table:
    """A block with its columns, or the headline alone, and with the differences from other rows."""
    form = FORMATS[unit]
    against = _labels_compared(block)
    shown = [block.headline] if headline_only else block.columns
    heads = columns("", *shown)
    if not headline_only:
        heads.append(Column("Cut-off", "name"))
    heads += [Column(f"vs {label}", group=block.headline) for label in against]

    def cells(row: StudyRow) -> list[Cell | str]:
        values = dict(zip(block.columns, row.values, strict=True))
        label = f"{row.label} ({row.seeds} seeds)" if row.seeds > 1 else row.label
        made: list[Cell | str] = [label, *(form.cell(values[column]) for column in shown)]
        if not headline_only:
            # One a seed; where all are equal, once.
            made.append("\n".join(row.cutoffs[:1] if len(set(row.cutoffs)) == 1 else row.cutoffs))
        found = {one.against: one for one in row.comparisons}
        for label in against:
            one = found.get(label)
            made.append(
                f"{form.number(one.difference, signed=True)} (p {one.p_value:.3f})" if one is not None else ""
            )
        return made

    return Table(heads, [cells(row) for row in block.rows])


def _labels_compared(block: Block) -> list[str]:
    """Rows that others of the block are compared with, the first row before the others."""
    found = dict.fromkeys(one.against for row in block.rows for one in row.comparisons)
    return sorted(found, key=lambda label: label != block.rows[0].label)


def as_markdown(tables: Sequence[StudyTable], notes: Sequence[str]) -> str:
    """All tables, one below the other."""
    parts = ["# Tables of the study\n", *(f"{note}\n" for note in notes)]
    for table in tables:
        parts += [f"## {table.title}\n", f"{table.caption}\n"]
        for block in table.blocks:
            if block.title:
                parts.append(f"### {block.title}\n")
            parts.append(f"{plural(block.cases, 'case')} in {plural(block.groups, 'group')}.\n")
            parts += [markdown(table_of(block, table.unit)), ""]
        if table.unfinished:
            parts.append(f"Not finished, and left out: {', '.join(table.unfinished)}.\n")
    return "\n".join(parts)


def as_csv(tables: Sequence[StudyTable]) -> str:
    """One line a value, and one a comparison (column `vs ROW`, with p); all in points of 100."""
    heads = ("table", "block", "row", "column", "value", "low", "high", "p", "seeds", "cases")
    return comma_separated(heads, _lines(tables))


def _lines(tables: Sequence[StudyTable]) -> Iterator[list[object]]:
    for table in tables:
        for block in table.blocks:
            for row in block.rows:
                place = [table.table, block.title, row.label]
                size = [row.seeds, block.cases]
                for column, value in zip(block.columns, row.values, strict=True):
                    numbers = ["" if math.isnan(part) else f"{part:.4f}" for part in value[:3]]
                    yield [*place, column, *numbers, "", *size]
                for one in row.comparisons:
                    numbers = [f"{one.difference:.4f}", "", "", f"{one.p_value:.4f}"]
                    yield [*place, f"{block.headline} vs {one.against}", *numbers, *size]


def as_object(table: StudyTable) -> dict[str, Any]:
    """For programs; values in points of 100, ends of intervals None where there is none."""
    return {
        **asdict(table),
        "blocks": [
            {
                **asdict(block),
                "rows": [
                    {
                        **asdict(row),
                        "values": {
                            column: {
                                "value": value.value,
                                "low": None if math.isnan(value.low) else value.low,
                                "high": None if math.isnan(value.high) else value.high,
                            }
                            for column, value in zip(block.columns, row.values, strict=True)
                        },
                    }
                    for row in block.rows
                ],
            }
            for block in table.blocks
        ],
    }


def as_page(tables: Sequence[StudyTable], notes: Sequence[str], curves: str | None) -> str:
    """All tables with a plot for each block, then the training curves.

    Args:
        tables: In order.
        notes: What went wrong, or is missing.
        curves: A plot; None where nothing was trained.
    """
    return render_page(
        "study.html",
        tables=tables,
        notes=notes,
        curves=curves,
        table_of=table_of,
        headline_plot=_headline_plot,
    )


def _headline_plot(block: Block, unit: Unit, name: str) -> str:
    place = block.columns.index(block.headline)
    rows = [(row.label, row.values[place]) for row in block.rows]
    return interval_plot(rows, block.headline, name, scale=1 / FORMATS[unit].over)
