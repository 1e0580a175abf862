"""Values with their intervals, one below the other."""

from __future__ import annotations

from collections.abc import Sequence

from evals.pages.svg import INK, MUTED, UP, as_svg, new_figure, plot_style
from evals.statistics.bootstrap import Interval


def interval_plot(
    rows: Sequence[tuple[str, Interval | None]], axis: str, name: str, *, scale: float = 1.0
) -> str:
    """A point and a bar for each row; the first row is what the others are held against.

    Args:
        rows: Names from above, with what there is.
        axis: What the values are.
        name: Unlike that of every other plot of the page.
        scale: Factor from values to what the axis shows.
    """
    with plot_style():
        figure, axes = new_figure(7.2, 0.9 + 0.36 * len(rows))
        for number, (_, interval) in enumerate(rows):
            if interval is None:
                continue
            colour = UP if number == 0 else INK
            if interval.method != "none":
                ends = [scale * interval.low, scale * interval.high]
                axes.plot(ends, [number, number], color=colour, linewidth=2.2, solid_capstyle="round")
            axes.plot(scale * interval.value, number, "o", color=colour, markersize=6)
            if number == 0:
                axes.axvline(scale * interval.value, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.set_yticks(range(len(rows)), [label for label, _ in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(axis)
        return as_svg(figure, name)
