"""Differences of two runs' scores, with intervals and p-values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evals.pages.tables import interval_object, p_text
from evals.scoring.scored_task import PairedTask, ScoredTask, by_task, pair
from evals.statistics.bootstrap import LEVEL, RESAMPLES, SEED, Interval, paired_bootstrap
from evals.statistics.sign_flip import swap_test


@dataclass(frozen=True, slots=True)
class Settings:
    """How differences are judged.

    Attributes:
        candidates: From how many configurations the better run was picked by its score on these cases.
            Intervals and p-values allow for as many comparisons (Bonferroni).
    """

    resamples: int = RESAMPLES
    seed: int = SEED
    candidates: int = 1

    @property
    def level(self) -> float:
        """Level of each interval: 1 - 0.05/N for the best of N."""
        return 1 - (1 - LEVEL) / self.candidates


@dataclass(frozen=True, slots=True)
class MetricDifference:
    """A metric of both runs.

    Attributes:
        difference: The second run's value less the first's.
        p_value: Of the randomisation test, times the number of candidates and at most 1.
        main: Whether it belongs into a short table.
    """

    name: str
    first: Interval
    second: Interval
    difference: Interval
    p_value: float
    main: bool

    @property
    def is_clear(self) -> bool:
        """Whether the interval of the difference excludes 0."""
        return self.difference.low > 0 or self.difference.high < 0

    def as_json(self) -> dict[str, Any]:
        sides = {"first": self.first, "second": self.second, "difference": self.difference}
        return {
            "name": self.name,
            **{name: interval_object(its) for name, its in sides.items()},
            "p_value": self.p_value,
            "main": self.main,
        }


@dataclass(frozen=True, slots=True)
class TaskDifferences:
    """A task of both runs, and the metrics that both have of it."""

    paired: PairedTask
    metrics: tuple[MetricDifference, ...]

    @property
    def scored(self) -> ScoredTask:
        """The first run's."""
        return self.paired.task

    @property
    def task(self) -> str:
        return self.scored.task

    @property
    def cases(self) -> int:
        """How many are scored in both."""
        return len(self.paired.case_ids)

    @property
    def headline(self) -> MetricDifference:
        """The metric that the task is ranked by, where the runs share it; else the first."""
        ranked = (metric for metric in self.metrics if metric.name == self.scored.headline)
        return next(ranked, self.metrics[0])

    def as_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "cases": self.cases,
            "metrics": [metric.as_json() for metric in self.metrics],
            "only_first": self.paired.only_first,
            "only_second": self.paired.only_second,
            "not_shared": self.paired.not_shared,
        }


def compare_scores(
    first: Sequence[ScoredTask], second: Sequence[ScoredTask], settings: Settings
) -> list[TaskDifferences]:
    """Compare the tasks that both runs have scores of, on the cases that both have scored."""
    pairs = [pair(one, other) for one, other in by_task([first, second])]
    return [_judged(paired, settings) for paired in pairs if paired.case_ids]


def _judged(paired: PairedTask, settings: Settings) -> TaskDifferences:
    first, second = paired.first, paired.second
    statistics = [score.statistic for score in paired.scores]
    drawn = {"resamples": settings.resamples, "seed": settings.seed}
    intervals = paired_bootstrap(first, second, statistics, level=settings.level, **drawn)
    p_values = swap_test(first, second, statistics, **drawn)
    metrics = [
        MetricDifference(score.name, *its, p_value=min(1.0, settings.candidates * p_value), main=score.main)
        for score, its, p_value in zip(paired.scores, intervals, p_values, strict=True)
    ]
    return TaskDifferences(paired, tuple(metrics))


def verdict(task: TaskDifferences) -> str:
    """Conclusion from the task's main metric, in a sentence."""
    metric, form = task.headline, task.scored.form
    difference = metric.difference
    if difference.method == "none":
        return f"{metric.name}: one case is not enough to compare."
    if difference.value == difference.low == difference.high == 0:
        return f"{metric.name}: no difference in any case."
    way = "above" if difference.value >= 0 else "below"
    ends = f"{form.bracket(difference, signed=True)}, p {p_text(metric.p_value, equals=True)}"
    if not metric.is_clear:
        meaning = "these cases do not distinguish the two runs"
    elif metric.p_value < 1 - LEVEL:
        meaning = "a difference that chance hardly explains"
    else:
        # The interval of a few cases is too narrow, and the test is exact.
        meaning = "the interval excludes 0, but the test does not confirm a difference"
    return f"{metric.name}: B is {form.number(abs(difference.value))} {way} A, {ends}: {meaning}."
