"""Plots as inline SVG in the page's colours, in one style."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from platformdirs import user_cache_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from evals.statistics.bootstrap import Interval

# Placeholder colours: each is replaced by a CSS variable, so that plots are dark in dark mode.
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


DASHES = (0, (4, 3))
"""Dashes of reference lines."""

_LIGHT = {INK: "#1b1f24", MUTED: "#6a737d", UP: "#0b6e4f", DOWN: "#b3401f"}
_DARK = {INK: "#e4e8ec", MUTED: "#97a1ab", UP: "#4cc79b", DOWN: "#f08a63"}
"""As in the pages, for plots that have none around them."""


@dataclass(slots=True)
class Drawing:
    """A figure in the looks of the pages.

    Attributes:
        svg: An element of a page, the same bytes for the same figure; complete once the drawing is left.
    """

    axes: Axes
    svg: str = ""


@contextmanager
def drawing(name: str, width: float, height: float) -> Iterator[Drawing]:
    """Draw within it; afterwards it has its `svg`. Lengths are in inches, names unique on a page."""
    # The cache of fonts is kept with ours.
    os.environ.setdefault("MPLCONFIGDIR", str(user_cache_path("evigraph") / "matplotlib"))
    # No pyplot: it would look for a screen.
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.patch.set_visible(False)
        made = Drawing(figure.add_subplot())
        made.axes.patch.set_visible(False)
        yield made
        made.svg = _as_svg(figure, name)


def note_at(axes: Axes, text: str, point: tuple[float, float], offset: tuple[int, int], **looks: Any) -> None:
    """Add text next to a point, `offset` in typographic points."""
    axes.annotate(text, point, xytext=offset, textcoords="offset points", **looks)


def legend_above(axes: Axes) -> None:
    """Add a legend above the plot, where no line crosses it."""
    axes.legend(frameon=False, labelcolor=INK, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)


def interval_plot(
    rows: Sequence[tuple[str, Interval | None]], axis: str, name: str, *, scale: float = 1.0
) -> str:
    """A point and a bar for each row, from above; the others are compared with the first row.

    The name is unique among the page's plots; `scale` is the factor from values to the axis.
    """
    return forest_plot(
        [(label, one, UP if number == 0 else INK) for number, (label, one) in enumerate(rows)],
        axis,
        name,
        reference=rows[0][1].value * scale if rows and rows[0][1] is not None else None,
        scale=scale,
    )


def forest_plot(
    rows: Sequence[tuple[str, Interval | None, str]],
    axis: str,
    name: str,
    *,
    reference: float | None,
    scale: float = 1.0,
) -> str:
    """Intervals one below the other, each in its colour, and a dashed line at `reference`."""
    with drawing(name, 7.2, 0.9 + 0.36 * len(rows)) as made:
        axes = made.axes
        if reference is not None:
            axes.axvline(reference, color=MUTED, linewidth=1, linestyle=DASHES)
        for place, (_, interval, colour) in enumerate(rows):
            if interval is None:
                continue
            if interval.method != "none":
                ends = [scale * interval.low, scale * interval.high]
                axes.plot(ends, [place, place], color=colour, linewidth=2.2, solid_capstyle="round")
            axes.plot(scale * interval.value, place, "o", color=colour, markersize=6)
        axes.set_yticks(range(len(rows)), [label for label, _, _ in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(axis)
    return made.svg


def standalone(svg: str) -> str:
    """A page's plot as a separate file: with colours, and dark where the reader's screen is."""
    light, night = (
        "".join(f"{_VARIABLES[name][4:-1]}:{value};" for name, value in colours.items())
        for colours in (_LIGHT, _DARK)
    )
    style = (
        f"<style>svg{{{light}background:#fff}}"
        f"@media (prefers-color-scheme:dark){{svg{{{night}background:#14181d}}}}</style>"
    )
    opening, _, rest = svg.partition(">")
    return f"{opening}>{style}{rest}"


def _as_svg(figure: Figure, name: str) -> str:
    written = io.StringIO()
    no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(written, format="svg", metadata=no_metadata)
    # Drop the XML declaration, which is not allowed inside a page.
    svg = written.getvalue()
    svg = svg[svg.index("<svg") :]
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, variable)
    # Ids are unlike those of the page's other plots, which number their parts alike.
    return _REFERENCE.sub(rf"\g<1>{name}-", svg)
