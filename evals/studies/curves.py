"""How trainings went, as pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evals.pages.svg import INK, MUTED, UP, as_svg, new_grid, plot_style

_ACROSS = 3
_STEPS = 40


@dataclass(frozen=True, slots=True)
class Curve:
    """One training.

    Attributes:
        losses: Steps and losses, pre-training left out.
        validations: Steps and average precisions on the tuning part.
    """

    losses: Sequence[tuple[float, float]]
    validations: Sequence[tuple[float, float]]


def read_curve(path: Path) -> Curve | None:
    """Read what a training has written; None where it has not, or damaged."""
    try:
        points = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        own = [point for point in points if point["phase"] == "train"]
        return Curve(
            [(point["step"], point["loss"]) for point in own if "loss" in point],
            [(point["step"], point["average_precision"]) for point in own if "average_precision" in point],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def curves_plot(curves: Mapping[str, Sequence[Curve]], name: str) -> str:
    """A panel a row, a thin line a seed: loss on the left, average precision on the right axis.

    Args:
        curves: Of each row's seeds, by the row's label.
        name: Unlike that of every other plot of the page.
    """
    with plot_style():
        figure, panels = new_grid(9.6, 2.1, len(curves), _ACROSS)
        for axes, (label, seeds) in zip(panels, curves.items(), strict=True):
            right = axes.twinx()
            right.patch.set_visible(False)
            for curve in seeds:
                axes.plot(*_split(_smoothed(curve.losses)), color=INK, linewidth=0.8)
                right.plot(*_split(curve.validations), "o-", color=UP, linewidth=0.8, markersize=3)
            axes.set_title(label, fontsize=9)
            axes.tick_params(labelsize=7)
            right.tick_params(labelsize=7, colors=UP)
            right.set_ylim(0, 1)
            right.spines["right"].set_visible(True)
            right.spines["right"].set_color(MUTED)
        return as_svg(figure, name)


def _smoothed(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Means of the last steps: a step is one document, and documents differ."""
    return [
        (step, sum(loss for _, loss in points[max(0, end - _STEPS) : end]) / min(end, _STEPS))
        for end, (step, _) in enumerate(points, 1)
    ]


def _split(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [point[0] for point in points], [point[1] for point in points]
