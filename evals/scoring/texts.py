"""Text metrics of a task: their means over cases, and the task's official mean of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cases.submissions.prediction import Task
from evals.metrics.text_metric import MetricName

ROUGES: tuple[MetricName, ...] = ("rouge1", "rouge2", "rougeL", "rougeLsum")

METRICS: Mapping[Task, tuple[MetricName, ...]] = {
    "2025": ("bleu", *ROUGES, "sari", "bertscore", "alignscore", "medcon"),
    "2026-1": (*ROUGES, "bertscore", "alignscore", "medcon"),
    "2026-2": (),
    "2026-3": ("bleu", *ROUGES, "sari", "bertscore", "alignscore", "medcon"),
    "2026-4": (),
}
"""Every metric that a task's official scorer prints."""

OVERALL: Mapping[Task, tuple[MetricName, ...]] = {
    "2025": ("alignscore", "rougeLsum", "bleu", "medcon", "bertscore", "sari"),
    "2026-1": ("alignscore", "rougeLsum", "medcon", "bertscore"),
    "2026-3": ("bleu", "rougeLsum", "sari", "bertscore", "alignscore", "medcon"),
}
"""The metrics whose plain mean is the task's score, or its part of it (2025)."""


@dataclass(frozen=True, slots=True)
class TextScores:
    """Text metrics over the cases.

    Attributes:
        means: By name, 0 to 100.
        by_case: The scores of each pair by name, in the order of the pairs.
        not_computed: Why a metric is missing.
        overall: Mean of the metrics that the task averages; None where one of them is missing.
        available: Mean of those of them that are there; None where none is.
    """

    means: Mapping[str, float]
    by_case: Sequence[Mapping[str, float]]
    not_computed: Mapping[str, str] = field(default_factory=dict)
    overall: float | None = None
    available: float | None = None


def average(
    task: Task, scored: Mapping[str, Sequence[float]], not_computed: Mapping[str, str], count: int
) -> TextScores:
    """Average scores over cases, and metrics over their means.

    Args:
        task: Says which metrics its official score is the mean of.
        scored: Of each metric that is computed the scores of all pairs, in its own unit.
        not_computed: Why the others are not.
        count: Number of pairs.
    """
    # As the official scorers do: first the mean, then the scale. The other order rounds differently.
    means = {name: _scale(name) * float(np.mean(values)) for name, values in scored.items()}
    parts = [means[name] for name in OVERALL[task] if name in means]
    mean = float(np.mean(parts)) if parts else None
    complete = len(parts) == len(OVERALL[task])
    return TextScores(
        means=means,
        by_case=[
            {name: _scale(name) * values[place] for name, values in scored.items()} for place in range(count)
        ],
        not_computed={name: not_computed[name] for name in METRICS[task] if name in not_computed},
        overall=mean if complete else None,
        available=None if complete else mean,
    )


def _scale(name: str) -> int:
    """SARI alone is out of 100 as it comes."""
    return 1 if name == "sari" else 100
