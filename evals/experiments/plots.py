"""Plots of an experiment's tables."""

from __future__ import annotations

from evals.experiments.tables import PaperTable
from evals.pages.interval_plot import interval_plot


def headline_plot(table: PaperTable) -> str:
    """The headline column of every row with its interval; the first row is what others are held against."""
    place = table.columns.index(table.headline)
    scale = 0.01 if table.unit == "share" else 1.0
    rows = [(row.name, row.values[place]) for row in table.rows]
    return interval_plot(rows, table.headline, f"table{table.table}", scale=scale)
