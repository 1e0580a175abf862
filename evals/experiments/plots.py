"""Plots of an experiment's tables."""

from __future__ import annotations

from evals.experiments.tables import PaperTable
from evals.pages.svg import INK, MUTED, UP, as_svg, new_figure, plot_style


def headline_plot(table: PaperTable) -> str:
    """The headline column of every row with its interval; the first row is what others are held against."""
    place = table.columns.index(table.headline)
    scale = 0.01 if table.unit == "share" else 1.0
    with plot_style():
        figure, axes = new_figure(7.2, 0.9 + 0.36 * len(table.rows))
        for number, row in enumerate(table.rows):
            interval = row.values[place]
            if interval is None:
                continue
            colour = UP if number == 0 else INK
            if interval.method != "none":
                ends = [scale * interval.low, scale * interval.high]
                axes.plot(ends, [number, number], color=colour, linewidth=2.2, solid_capstyle="round")
            axes.plot(scale * interval.value, number, "o", color=colour, markersize=6)
            if number == 0:
                axes.axvline(scale * interval.value, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.set_yticks(range(len(table.rows)), [row.name for row in table.rows])
        axes.set_ylim(len(table.rows) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(table.headline)
        return as_svg(figure, f"table{table.table}")
