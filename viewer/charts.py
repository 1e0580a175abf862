"""Charts as SVG files of their own, light or dark as the reader's screen is."""

from __future__ import annotations

import threading

from evals.pages.svg import INK, UP, as_svg, new_figure, plot_style
from viewer.figures import Figure

WIDTH, HEIGHT = 400, 230
"""In CSS pixels; pages reserve this room before a chart is there."""

# An image has no page to take colours from. Browsers tell images which scheme the page is shown in.
_STYLE = (
    "<style>:root{--ink:#1b1f24;--muted:#59636e;--up:#0072b2;--down:#b3401f}"
    "@media (prefers-color-scheme:dark){:root{--ink:#e4e8ec;--muted:#9aa5b0;--up:#56b4e9;--down:#f08a63}}"
    "</style>"
)
_POINTS_AN_INCH = 96
_LABELS = 7
# matplotlib's settings are global.
_DRAWING = threading.Lock()


def draw(chart: Figure) -> str:
    """A bar chart as an SVG file."""
    with _DRAWING, plot_style():
        figure, axes = new_figure(WIDTH / _POINTS_AN_INCH, HEIGHT / _POINTS_AN_INCH)
        labels = [label for label, _ in chart.bars]
        places, lengths = range(len(labels)), [length for _, length in chart.bars]
        if not chart.bars:
            axes.set_axis_off()
            axes.text(0.5, 0.5, "no case yet", ha="center", va="center", color=INK)
        elif chart.lying:
            axes.barh(places, lengths, color=UP, height=0.7)
            axes.set_yticks(places, [label.replace("_", " ")[:32] for label in labels], fontsize=8)
            axes.invert_yaxis()
            axes.set_xlabel(chart.up)
            axes.locator_params(axis="x", nbins=4, integer=True)
            axes.xaxis.set_major_formatter("{x:,.0f}")
        else:
            axes.bar(places, lengths, color=UP, width=0.8)
            every = -(-len(labels) // _LABELS)
            axes.set_xticks(places[::every], labels[::every])
            axes.set_xlabel(chart.across)
            axes.set_ylabel(chart.up)
            axes.locator_params(axis="y", nbins=5, integer=True)
            axes.yaxis.set_major_formatter("{x:,.0f}")
        svg = as_svg(figure, chart.name)
    end = svg.index(">") + 1
    return svg[:end] + _STYLE + svg[end:]
