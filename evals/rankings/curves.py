"""How trainings went, as pictures: one training, or all of a study."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evals.pages.plots import DASHES, DOWN, INK, MUTED, UP, drawing, note_at, right_axis, standalone

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = Sequence[tuple[float, float]]
"""Steps and values."""

_SMOOTHED_STEPS = 40
_PANELS_ACROSS = 3


@dataclass(frozen=True, slots=True)
class Curve:
    """One training, pre-training left out.

    Attributes:
        losses: Of each step.
        validations: Average precision on the tuning part, of each epoch.
    """

    losses: Points
    validations: Points


def read_curve(path: Path) -> Curve | None:
    """Read what a training has written; None where it has not, or damaged."""
    try:
        points = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        own = [point for point in points if point["phase"] == "train"]
        return Curve(_points(own, "loss"), _points(own, "average_precision"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def curves_plot(curves: Mapping[str, Sequence[Curve]], name: str) -> str:
    """A panel a row, a thin line a seed: loss on the left, average precision on the right axis.

    Args:
        curves: Of each row's seeds, by the row's label.
        name: Unlike that of every other plot of the page.
    """
    with drawing(name, 9.6, 2.1, len(curves), _PANELS_ACROSS) as made:
        for axes, (label, seeds) in zip(made.panels, curves.items(), strict=True):
            right = right_axis(axes)
            for curve in seeds:
                _plot_losses(axes, curve.losses, color=INK, linewidth=0.8)
                right.plot(*_split(curve.validations), "o-", color=UP, linewidth=0.8, markersize=3)
            axes.set_title(label, fontsize=9)
            axes.tick_params(labelsize=7)
            right.tick_params(labelsize=7, colors=UP)
            right.spines["right"].set_color(MUTED)
    return made.svg


def curve_svg(points: Sequence[Mapping[str, Any]]) -> str:
    """One training as a picture that stands alone: loss by step, and the held-out figures of each epoch.

    Args:
        points: The lines of a ranker's `curve.jsonl`.
    """
    with drawing("curve", 7.2, 3.6) as made:
        axes = made.axes
        start = 0
        for phase in ("pretrain", "train"):
            of_phase = [
                {**point, "step": start + point["step"]} for point in points if point["phase"] == phase
            ]
            if not of_phase:
                continue
            _plot_losses(axes, _points(of_phase, "loss"), color=MUTED, linewidth=1.2)
            if start:
                axes.axvline(start, color=MUTED, linewidth=1, linestyle=DASHES)
            if any("micro_f1" in point for point in of_phase):
                _plot_figures(axes, of_phase)
            start = max(point["step"] for point in of_phase)
        axes.set_xlabel("step (documents)")
        axes.set_ylabel("training loss, running mean", color=MUTED)
        axes.set_ylim(bottom=0)
    return standalone(made.svg, dark=True)


def _plot_figures(axes: Axes, points: Sequence[Mapping[str, Any]]) -> None:
    right = right_axis(axes)
    right.set_ylabel("held out", color=INK)
    for name, label, colour in (
        ("average_precision", "average precision", UP),
        ("micro_f1", "micro F1", DOWN),
    ):
        values = _points([point for point in points if "micro_f1" in point], name)
        right.plot(*_split(values), "o-", color=colour, markersize=5, linewidth=1.6)
        note_at(right, label, values[-1], (-6, 6), ha="right", color=colour)


def _plot_losses(axes: Axes, losses: Points, **looks: Any) -> None:
    """Means of the last steps: a step is one document, and documents differ."""
    smoothed = [
        (
            step,
            sum(loss for _, loss in losses[max(0, end - _SMOOTHED_STEPS) : end]) / min(end, _SMOOTHED_STEPS),
        )
        for end, (step, _) in enumerate(losses, 1)
    ]
    axes.plot(*_split(smoothed), **looks)


def _points(lines: Sequence[Mapping[str, Any]], name: str) -> Points:
    return [(line["step"], line[name]) for line in lines if name in line]


def _split(points: Points) -> tuple[list[float], list[float]]:
    return [point[0] for point in points], [point[1] for point in points]
