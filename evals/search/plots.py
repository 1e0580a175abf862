"""Rerankers by depth as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from evals.pages.interval_plot import interval_plot
from evals.pages.svg import DOWN, INK, MUTED, UP, as_svg, new_figure, plot_style
from evals.search.report import NDCG, TEST, SearchTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = ((MUTED, "--"), (UP, "-"), (DOWN, "-"), (INK, "-"), (UP, ":"), (DOWN, ":"), (INK, ":"))


def retrieval_plot(table: SearchTable) -> str:
    """A point and an interval for each retriever."""
    return interval_plot([(row.name, row.values[NDCG].interval) for row in table.rows], NDCG, "retrieval")


def depth_plot(table: SearchTable, measure: str, depths: Sequence[int]) -> str:
    """A line a reranker over the number of retrieved documents that it was given."""
    with plot_style():
        figure, axes = new_figure(7.2, 4.2)
        places = range(len(depths))
        for number, row in enumerate(table.rows):
            colour, line = _STYLES[number % len(_STYLES)]
            values = [row.values[f"{measure} of {depth:,}"].interval.value for depth in depths]
            axes.plot(places, values, color=colour, linestyle=line, marker="o", markersize=4, label=row.name)
        axes.set_xticks(list(places), [f"{depth:,}" for depth in depths])
        axes.set_xlabel("retrieved documents")
        axes.set_ylabel(measure)
        _legend_above(axes)
        return as_svg(figure, "depths")


def _legend_above(axes: Axes) -> None:
    """Where no line can run through it."""
    axes.legend(frameon=False, labelcolor=INK, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)


def ensemble_plot(table: SearchTable) -> str:
    """A point and an interval for each system on the test questions."""
    column = f"{NDCG} {TEST}"
    return interval_plot([(row.name, row.values[column].interval) for row in table.rows], column, "ensemble")


def learning_curve(table: SearchTable, column: str, trained_on: Mapping[str, int]) -> str:
    """Rerankers by how many questions they learned from, against the documents as they were retrieved."""
    points = sorted(
        ((trained_on[row.name], row) for row in table.rows if row.name in trained_on),
        key=lambda point: point[0],
    )
    plain = table.rows[0].values[column].interval
    with plot_style():
        figure, axes = new_figure(7.2, 4.2)
        axes.axhline(plain.value, color=MUTED, linestyle="--", linewidth=1.2, label=table.rows[0].name)
        axes.axhspan(plain.low, plain.high, color=MUTED, alpha=0.12, linewidth=0)
        counts = [count for count, _ in points]
        values = [row.values[column].interval for _, row in points]
        below = [one.value - one.low for one in values]
        above = [one.high - one.value for one in values]
        axes.errorbar(
            counts,
            [one.value for one in values],
            yerr=[below, above],
            color=UP,
            marker="o",
            markersize=5,
            capsize=3,
            label="trained reranker",
        )
        axes.set_xlim(left=0)
        axes.set_xlabel("questions learned from")
        axes.set_ylabel(column)
        _legend_above(axes)
        return as_svg(figure, "learning")
