"""Plots of a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evals.compare.changes import F1Pair
from evals.compare.differences import MetricDifference
from evals.pages.svg import DOWN, INK, MUTED, UP, as_svg, new_figure, plot_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BUBBLES = 400
"""Of more different pairs of scores, bins are drawn."""


def forest_plot(metrics: Sequence[MetricDifference], name: str) -> str:
    """Differences of metrics with their intervals, 0 marked.

    Args:
        metrics: In order from above.
        name: Unlike that of every other plot of the page.
    """
    with plot_style():
        figure, axes = new_figure(7.2, 0.9 + 0.34 * len(metrics))
        axes.axvline(0, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        for place, metric in enumerate(metrics):
            _, low, high, _ = metric.difference
            colour = (UP if low > 0 else DOWN) if metric.is_clear else INK
            axes.plot([low, high], [place, place], color=colour, linewidth=2.2, solid_capstyle="round")
            axes.plot(metric.difference.value, place, "o", color=colour, markersize=6)
        axes.set_yticks(range(len(metrics)), [metric.name for metric in metrics])
        axes.set_ylim(len(metrics) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("B minus A, points")
        return as_svg(figure, name)


def case_plot(scores: Sequence[F1Pair], name: str) -> str:
    """F1 of every case in A against B: an area for the number of cases, bins where there are many scores."""
    pairs = Counter((round(pair.first, 4), round(pair.second, 4)) for pair in scores)
    with plot_style():
        figure, axes = new_figure(4.6, 4.6)
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        if len(pairs) <= _MOST_BUBBLES:
            _bubbles(axes, pairs)
        else:
            _bins(axes, scores)
        axes.set_xlim(-0.05, 1.05)
        axes.set_ylim(-0.05, 1.05)
        axes.set_aspect("equal")
        axes.set_xlabel("strict F1 in A")
        axes.set_ylabel("strict F1 in B")
        return as_svg(figure, name)


def _bubbles(axes: Axes, pairs: Counter[tuple[float, float]]) -> None:
    most = max(pairs.values(), default=1)
    for colour, sign in ((UP, 1), (DOWN, -1), (INK, 0)):
        chosen = [(pair, count) for pair, count in pairs.items() if np.sign(pair[1] - pair[0]) == sign]
        if chosen:
            axes.scatter(
                [pair[0] for pair, _ in chosen],
                [pair[1] for pair, _ in chosen],
                s=[40 + 300 * (count / most) * (most > 1) for _, count in chosen],
                color=colour,
                alpha=0.75,
                linewidths=0,
            )


def _bins(axes: Axes, scores: Sequence[F1Pair]) -> None:
    """Squares whose strength is the logarithm of their number of cases."""
    edges = np.linspace(-0.02, 1.02, 27)
    counts, _, _ = np.histogram2d(
        [pair.first for pair in scores], [pair.second for pair in scores], bins=[edges, edges]
    )
    centres = (edges[:-1] + edges[1:]) / 2
    columns, rows = np.nonzero(counts)
    strength = 0.15 + 0.85 * np.log1p(counts) / np.log1p(counts.max())
    for colour, sign in ((UP, 1), (DOWN, -1), (INK, 0)):
        of_sign = np.sign(rows - columns) == sign
        column, row = columns[of_sign], rows[of_sign]
        axes.scatter(
            centres[column],
            centres[row],
            s=80,
            marker="s",
            color=colour,
            alpha=strength[column, row],
            linewidths=0,
        )
