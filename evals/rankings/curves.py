"""The curve of a training as a picture that stands alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evals.pages.svg import DOWN, INK, MUTED, UP, as_svg, new_figure, plot_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SMOOTHED_STEPS = 40
_COLOURS = (
    "<style>svg{--ink:#1b1f24;--muted:#6a737d;--up:#0b6e4f;--down:#b3401f;background:#fff}"
    "@media (prefers-color-scheme:dark){svg{--ink:#e4e8ec;--muted:#97a1ab;--up:#4cc79b;--down:#f08a63;"
    "background:#14181d}}</style>"
)
"""The page's colours, of which there is none here."""


def curve_svg(points: Sequence[Mapping[str, Any]]) -> str:
    """Loss by step, and the held-out figures of each epoch.

    Args:
        points: The lines of a ranker's `curve.jsonl`.
    """
    with plot_style():
        figure, axes = new_figure(7.2, 3.6)
        start = 0
        for phase in ("pretrain", "train"):
            of_phase = [point for point in points if point["phase"] == phase]
            if not of_phase:
                continue
            losses = [(start + point["step"], point["loss"]) for point in of_phase if "loss" in point]
            axes.plot(*zip(*_smoothed(losses), strict=True), color=MUTED, linewidth=1.2)
            if start:
                axes.axvline(start, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
            epochs = [(start + point["step"], point) for point in of_phase if "micro_f1" in point]
            if epochs:
                _draw_figures(axes, epochs)
            start += max(point["step"] for point in of_phase)
        axes.set_xlabel("step (documents)")
        axes.set_ylabel("training loss, running mean", color=MUTED)
        axes.set_ylim(bottom=0)
        svg = as_svg(figure, "curve")
    opening, _, rest = svg.partition(">")
    return f"{opening}>{_COLOURS}{rest}"


def _smoothed(losses: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Running means: a step is one document, and documents differ."""
    found: list[tuple[int, float]] = []
    mean = losses[0][1]
    for step, loss in losses:
        mean += (loss - mean) / min(len(found) + 1, _SMOOTHED_STEPS)
        found.append((step, mean))
    return found


def _draw_figures(axes: Axes, epochs: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
    beside = axes.twinx()
    beside.patch.set_visible(False)
    beside.spines["right"].set_visible(True)
    beside.set_ylim(0, 1)
    beside.set_ylabel("held out", color=INK)
    steps = [step for step, _ in epochs]
    for name, colour in (("average_precision", UP), ("micro_f1", DOWN)):
        values = [point[name] for _, point in epochs]
        beside.plot(steps, values, "o-", color=colour, markersize=5, linewidth=1.6)
        beside.annotate(
            name.replace("_", " ").replace("f1", "F1"),
            (steps[-1], values[-1]),
            xytext=(-6, 6),
            textcoords="offset points",
            ha="right",
            color=colour,
        )
