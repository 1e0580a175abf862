"""Plots as SVG that lies in a page, takes on its colours and needs nothing else."""

from __future__ import annotations

import io
import os
import re
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from platformdirs import user_cache_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that only stand for the page's own: each is replaced by a CSS variable, so that plots are dark where
# the page is.
INK, MUTED, UP, DOWN = "#010101", "#020202", "#030303", "#040404"
_VARIABLES = {INK: "var(--ink)", MUTED: "var(--muted)", UP: "var(--up)", DOWN: "var(--down)"}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "evigraph",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_REFERENCE = re.compile(r'( id="|url\(#|xlink:href="#)')


def plot_style() -> AbstractContextManager[None]:
    """Within it, figures have the looks of the pages."""
    _keep_the_font_cache_with_ours()
    from matplotlib import rc_context

    return rc_context(_STYLE)


def _keep_the_font_cache_with_ours() -> None:
    os.environ.setdefault("MPLCONFIGDIR", str(user_cache_path("evigraph") / "matplotlib"))


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """In inches. No pyplot: it would look for a screen."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.patch.set_visible(False)
    axes = figure.add_subplot()
    axes.patch.set_visible(False)
    return figure, axes


def new_grid(width: float, panel_height: float, panels: int, across: int) -> tuple[Figure, list[Axes]]:
    """As many axes as panels, `across` in a row, from left to right and then downwards."""
    from matplotlib.figure import Figure

    down = -(-panels // across)
    figure = Figure(figsize=(width, panel_height * down), layout="constrained")
    figure.patch.set_visible(False)
    found = [figure.add_subplot(down, across, number + 1) for number in range(panels)]
    for axes in found:
        axes.patch.set_visible(False)
    return figure, found


def standalone(svg: str) -> str:
    """A page's plot as a file of its own, which has no page to take colours from."""
    light = {INK: "#1b1f24", MUTED: "#6a737d", UP: "#0b6e4f", DOWN: "#b3401f"}
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(variable, light[colour])
    return svg


def as_svg(figure: Figure, name: str) -> str:
    """The figure as an element of a page, the same bytes for the same figure.

    Args:
        figure: Drawn in `plot_style`.
        name: Unlike that of every other plot of the page.
    """
    written = io.StringIO()
    no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(written, format="svg", metadata=no_metadata)
    # What stands before is an XML declaration, which has no place inside of a page.
    svg = written.getvalue()
    svg = svg[svg.index("<svg") :]
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, variable)
    # Ids are unlike those of the page's other plots, which number their parts alike.
    return _REFERENCE.sub(rf"\g<1>{name}-", svg)
