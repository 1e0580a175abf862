"""An experiment's cells and tables for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from cli.terminal import output, safe
from evals.experiments.report import Report
from evals.experiments.run import Cells, PlannedCell
from evals.experiments.tables import TITLES, PaperTable
from evals.statistics.bootstrap import Interval


def print_experiment(folder: Path, planned: Sequence[PlannedCell], cells: Cells, made: Report) -> None:
    """Print what each cell took, the headline of each table, and where the tables are."""
    console = output()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("cell", "cases", "calls made", "shared or replayed", "tokens"):
        table.add_column(name, justify="left" if name == "cell" else "right")
    for cell in planned:
        run = (cells.tuning if cell.tuning else cells.reported).get(cell.name)
        title = safe(cell.name + (" (tuning)" if cell.tuning else ""))
        if run is None:
            table.add_row(title, "not finished", "", "", "")
            continue
        counts, sessions = run.manifest.counts, run.manifest.sessions
        failed = f", {counts.failed} failed" if counts.failed else ""
        table.add_row(
            title,
            f"{counts.done}{failed}",
            f"{sum(session.calls for session in sessions):,}",
            f"{sum(session.replayed for session in sessions):,}",
            f"{run.manifest.total_tokens:,}",
        )
    console.print(table)
    for one in made.tables:
        _print_headline(one)
    console.print()
    for note in made.notes:
        console.print(safe(note))
    console.print(safe(f"tables  {made.markdown}"))
    console.print(safe(f"        {made.csv}"))
    console.print(safe(f"page    {made.page}"))
    if len(cells.reported) > 1:
        first, second, *_ = cells.reported.values()
        console.print(safe(f"next    evigraph compare {first.path} {second.path}"))


def _print_headline(one: PaperTable) -> None:
    place = one.columns.index(one.headline) if one.headline in one.columns else None
    table = Table(
        title=f"table {one.table}: {TITLES[one.table]}", title_justify="left", box=None, pad_edge=False
    )
    table.add_column("", overflow="fold")
    table.add_column(safe(one.headline), justify="right")
    table.add_column("to the first row", justify="right")
    table.add_column("p", justify="right")
    scale, digits = (0.01, 4) if one.unit == "share" else (1.0, 2)
    for row in one.rows:
        value = None if place is None else row.values[place]
        table.add_row(
            safe(row.name),
            _shown(value, scale, digits),
            _shown(row.difference, scale, digits, sign="+") if row.difference else "",
            "" if row.p_value is None else f"{row.p_value:.3f}",
        )
    output().print()
    output().print(table)


def _shown(interval: Interval | None, scale: float, digits: int, sign: str = "") -> str:
    if interval is None:
        return "-"
    value, low, high = (f"{scale * part:{sign}.{digits}f}" for part in interval[:3])
    return safe(value if interval.method == "none" else f"{value} [{low}, {high}]").plain


def as_object(planned: Sequence[PlannedCell], cells: Cells, made: Report) -> dict[str, Any]:
    """One object for programs; values of tables are in points of 100."""
    return {
        "cells": {
            name: {"run": str(run.path), **run.manifest.counts.model_dump()}
            for name, run in cells.reported.items()
        },
        "unfinished": [
            cell.name
            for cell in planned
            if cell.name not in (cells.tuning if cell.tuning else cells.reported)
        ],
        "tables": [_table_object(table) for table in made.tables],
        "notes": list(made.notes),
        "markdown": str(made.markdown),
        "csv": str(made.csv),
        "page": str(made.page),
    }


def _table_object(table: PaperTable) -> dict[str, Any]:
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
