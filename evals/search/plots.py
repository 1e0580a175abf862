"""Rerankers by depth as a picture."""

from __future__ import annotations

from collections.abc import Sequence

from evals.pages.interval_plot import interval_plot
from evals.pages.svg import DOWN, INK, MUTED, UP, as_svg, new_figure, plot_style
from evals.search.report import NDCG, SearchTable

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
        axes.legend(frameon=False, labelcolor=INK)
        return as_svg(figure, "depths")
