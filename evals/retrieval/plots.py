"""The price of a floor as a picture."""

from __future__ import annotations

from collections.abc import Sequence

from evals.pages.svg import DOWN, INK, MUTED, UP, as_svg, new_figure, plot_style
from evals.retrieval.report import FloorCurve
from evals.retrieval.strategies import FLOORS

_STYLES = ((UP, "-"), (DOWN, "-"), (INK, "-"), (MUTED, "-"), (MUTED, (0, (4, 3))))


def floor_plot(curves: Sequence[FloorCurve]) -> str:
    """Micro precision against recall, a line a truncation and a point a floor.

    Floors that change nothing lie on one point; the floors of the first truncation are named.
    """
    with plot_style():
        figure, axes = new_figure(6.4, 4.6)
        for curve, (colour, line) in zip(curves, _STYLES, strict=False):
            axes.plot(
                curve.recall,
                curve.precision,
                color=colour,
                linestyle=line,
                marker="o",
                markersize=4,
                linewidth=1.5,
                label=curve.name,
            )
        for curve in curves[:1]:
            for floor, point in zip(FLOORS, zip(curve.recall, curve.precision, strict=True), strict=True):
                axes.annotate(
                    str(floor), point, xytext=(5, 5), textcoords="offset points", color=_STYLES[0][0]
                )
        axes.set_xlim(-3, 103)
        axes.set_ylim(-3, 103)
        axes.set_xlabel("recall, %")
        axes.set_ylabel("precision, %")
        axes.legend(frameon=False, labelcolor=INK)
        return as_svg(figure, "floors")
