"""A sweep of attribution thresholds as one HTML file: numbers alone, no text of a case."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cases.files import write_atomically
from evals.analysis.attribution import AttributionScores, AttributionSweep
from evals.pages.environment import drawn, page_environment
from evals.pages.svg import DOWN, INK, MUTED, UP, as_svg, new_figure, plot_style


def write_attribution_page(path: Path, found: AttributionSweep) -> None:
    """Write the page.

    Raises:
        InputError: The file cannot be written.
    """
    template = page_environment("evals.analysis").get_template("attribution.html")
    plot = drawn(threshold_plot(found.own_rows, found.threshold)) if found.rows else None
    write_atomically(path, [template.render(found=found, plot=plot).encode()])


def threshold_plot(rows: Sequence[AttributionScores], threshold: float) -> str:
    """Strict micro precision, recall and F1 against the threshold; that of the run is marked.

    Args:
        rows: In the order of their thresholds, all with the same weights.
        threshold: Of the recipe.
    """
    with plot_style():
        figure, axes = new_figure(5.2, 3.6)
        places = [row.threshold for row in rows]
        axes.axvline(threshold, color=MUTED, linewidth=1, linestyle=":")
        for name, colour in (("precision", UP), ("recall", DOWN), ("f1", INK)):
            values = [100 * getattr(row.strict_micro, name) for row in rows]
            axes.plot(places, values, color=colour, marker="o", markersize=4, linewidth=1.5)
            label = "F1" if name == "f1" else name
            axes.annotate(label, (places[0], values[0]), xytext=(4, 4), textcoords="offset points")
        axes.set_ylim(-3, 108)
        axes.set_xlabel("threshold")
        axes.set_ylabel("%")
        return as_svg(figure, "attribution")
