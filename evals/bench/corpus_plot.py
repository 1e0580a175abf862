"""The cost curve of corpora as a drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evals.pages.svg import INK, MUTED, UP, as_svg, new_grid, plot_style, standalone

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PANELS = {
    "processor_seconds": ("processor time of the build", "s", 1.0),
    "peak_mb": ("peak memory of the build", "MB", 1.0),
    "disk_bytes": ("size on disk", "GB", 1e-9),
    "query_processor_ms": ("processor time of a query", "ms", 1.0),
}


def draw(rows: Sequence[Mapping[str, Any]], further: Mapping[str, Mapping[str, float]], aim: int) -> str:
    """One panel a quantity, both axes logarithmic: measured, and extrapolated in two ways."""
    with plot_style():
        figure, panels = new_grid(9.0, 3.0, len(_PANELS), 2)
        for axes, (name, (title, unit, factor)) in zip(panels, _PANELS.items(), strict=True):
            measured = [row[name] * factor for row in rows]
            _panel(axes, [row["documents"] for row in rows], measured, further[name], aim, factor)
            axes.set_title(f"{title}, exponent {further[name]['exponent']:.2f}", loc="left", fontsize=10)
            axes.set_ylabel(unit)
        panels[0].legend(frameon=False, fontsize=8, loc="upper left")
        for axes in panels[-2:]:
            axes.set_xlabel("documents")
        return standalone(as_svg(figure, "corpus"))


def _panel(
    axes: Axes,
    sizes: Sequence[int],
    measured: Sequence[float],
    further: Mapping[str, float],
    aim: int,
    factor: float,
) -> None:
    axes.loglog(sizes, measured, "o-", color=INK, label="measured")
    ends = [further["by_exponent"] * factor, further["linear"] * factor]
    labels = ("by the exponent between the last two", "linear from the last one on")
    for end, style, label in zip(ends, ("--", ":"), labels, strict=True):
        axes.loglog([sizes[-1], aim], [measured[-1], end], style, color=UP, label=label)
    # Where both ends lie together, one number says it.
    told = ends if max(ends) > 1.3 * min(ends) else ends[:1]
    for end in told:
        _annotate(axes, aim, end, (5, -3), UP)
    for size, value in zip(sizes, measured, strict=True):
        _annotate(axes, size, value, (-4, 7), MUTED)
    axes.minorticks_off()
    axes.margins(x=0.12, y=0.2)


def _annotate(axes: Axes, x: float, y: float, offset: tuple[int, int], colour: str) -> None:
    text = f"{y:,.0f}" if y >= 100 else f"{y:.2g}"
    axes.annotate(text, (x, y), textcoords="offset points", xytext=offset, fontsize=8, color=colour)
