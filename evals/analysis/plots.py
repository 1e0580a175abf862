"""Plots of a run's votes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evals.analysis.sweep import EvidenceScores
from evals.pages.svg import DOWN, INK, MUTED, UP, as_svg, new_figure, plot_style

_CLEAR_OF_POINT = (6, 6)


def precision_recall_plot(by_threshold: Sequence[EvidenceScores], threshold: int) -> str:
    """Precision against recall, strict micro, a point a threshold; that of the recipe is marked.

    Args:
        by_threshold: From threshold 1 up.
        threshold: T of the recipe.
    """
    with plot_style():
        figure, axes = new_figure(5.2, 4.2)
        recall = [100 * entry.strict_micro.recall for entry in by_threshold]
        precision = [100 * entry.strict_micro.precision for entry in by_threshold]
        axes.plot(recall, precision, color=MUTED, linewidth=1.5, zorder=1)
        for number, point in enumerate(zip(recall, precision, strict=True), 1):
            own = number == threshold
            axes.scatter(*point, s=70 if own else 36, color=UP if own else INK, zorder=2)
            axes.annotate(f"T = {number}", point, xytext=_CLEAR_OF_POINT, textcoords="offset points")
        axes.set_xlim(-3, 108)
        axes.set_ylim(-3, 108)
        axes.set_xlabel("recall, %")
        axes.set_ylabel("precision, %")
        return as_svg(figure, "curve")


def vote_counts_plot(by_count: Mapping[int, int], votes: int) -> str:
    """How many sentences have how many essential votes."""
    with plot_style():
        figure, axes = new_figure(5.2, 2.8)
        counts = range(votes + 1)
        axes.bar(counts, [by_count.get(number, 0) for number in counts], color=INK, width=0.7)
        axes.set_xticks(list(counts))
        axes.set_xlabel(f"essential votes of {votes}")
        axes.set_ylabel("sentences")
        return as_svg(figure, "counts")


def confusion_plot(confusion: Mapping[tuple[str, str], int]) -> str:
    """Cases by gold intent (rows) and predicted intent (columns); areas stand for numbers."""
    names = sorted({name for pair in confusion for name in pair})
    place = {name: number for number, name in enumerate(names)}
    most = max(confusion.values(), default=1)
    with plot_style():
        figure, axes = new_figure(2.8 + 0.42 * len(names), 2.4 + 0.36 * len(names))
        for (gold, made), number in confusion.items():
            right = gold == made
            axes.scatter(
                place[made], place[gold], s=30 + 190 * number / most, color=UP if right else DOWN, alpha=0.85
            )
            axes.annotate(
                f"{number:,}",
                (place[made], place[gold]),
                xytext=(9, 0),
                textcoords="offset points",
                va="center",
            )
        axes.set_xticks(range(len(names)), names, rotation=55, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(names)), names)
        axes.set_xlim(-0.7, len(names) - 0.1)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_xlabel("predicted")
        axes.set_ylabel("by the key")
        axes.grid(color=MUTED, alpha=0.25)
        return as_svg(figure, "confusion")
