"""Differences of two runs' scores, with intervals and p-values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from cases.submissions.archehr import Task
from evals.pages.tables import p_text
from evals.scoring.measures import PairedScores, TaskScores, pair_scores
from evals.statistics.bootstrap import LEVEL, RESAMPLES, SEED, Interval, PairedIntervals, paired_bootstrap
from evals.statistics.case_totals import CaseStatistic, Floats, Shifted
from evals.statistics.sign_flip import swap_test

_HEADLINES = ("overall_score", "strict_micro_f1", "micro_f1", "mean_of_available")


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
        """Of each interval: 1 - 0.05/N for the best of N."""
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
        """Whether the interval of the difference leaves 0 out."""
        return self.difference.low > 0 or self.difference.high < 0


@dataclass(frozen=True, slots=True)
class TaskDifferences:
    """A task of both runs.

    Attributes:
        cases: Number of cases that are scored in both.
        only_first: Cases that are scored in the first run alone.
        only_second: Cases that are scored in the second run alone.
        not_shared: Metrics, or variants of counts, that only one of the runs has.
    """

    task: Task
    cases: int
    metrics: tuple[MetricDifference, ...]
    only_first: tuple[str, ...] = ()
    only_second: tuple[str, ...] = ()
    not_shared: tuple[str, ...] = ()


def compare_scores(
    first: Sequence[TaskScores], second: Sequence[TaskScores], settings: Settings
) -> list[TaskDifferences]:
    """Compare the tasks that both runs have scores of, on the cases that both have scored.

    Tasks on the same cases share their resamples.
    """
    others = {scored.task: scored for scored in second}
    pairs = [pair_scores(scored, others[scored.task]) for scored in first if scored.task in others]
    pairs = [pair for pair in pairs if pair.case_ids]
    found: dict[Task, TaskDifferences] = {}
    for _, group in groupby(sorted(pairs, key=lambda pair: pair.case_ids), key=lambda pair: pair.case_ids):
        for task in _judged(list(group), settings):
            found[task.task] = task
    return [found[pair.task] for pair in pairs]


def _judged(pairs: Sequence[PairedScores], settings: Settings) -> list[TaskDifferences]:
    """Tasks on the same cases in the same order."""
    first, second = (
        np.hstack([pair.first for pair in pairs]),
        np.hstack([pair.second for pair in pairs]),
    )
    statistics: list[CaseStatistic] = []
    offset = 0
    for pair in pairs:
        statistics += [Shifted(measure.statistic, offset) for measure in pair.measures]
        offset += pair.first.shape[1]
    judged = iter(_judge(first, second, statistics, settings))
    return [
        TaskDifferences(
            pair.task,
            len(pair.case_ids),
            tuple(
                MetricDifference(measure.name, its.first, its.second, its.difference, p_value, measure.main)
                for measure, (its, p_value) in zip(pair.measures, judged, strict=False)
            ),
            pair.only_first,
            pair.only_second,
            pair.not_shared,
        )
        for pair in pairs
    ]


def _judge(
    first: Floats, second: Floats, statistics: Sequence[CaseStatistic], settings: Settings
) -> list[tuple[PairedIntervals, float]]:
    intervals = paired_bootstrap(
        first,
        second,
        statistics,
        resamples=settings.resamples,
        level=settings.level,
        seed=settings.seed,
    )
    p_values = swap_test(first, second, statistics, resamples=settings.resamples, seed=settings.seed)
    adjusted = [min(1.0, settings.candidates * p_value) for p_value in p_values]
    return list(zip(intervals, adjusted, strict=True))


def _headline(task: TaskDifferences) -> MetricDifference | None:
    """The metric that a task is ranked by, where the runs have it; else the first."""
    named = {metric.name: metric for metric in task.metrics}
    ranked = [named[name] for name in _HEADLINES if name in named]
    return next(iter([*ranked, *task.metrics]), None)


def verdict(task: TaskDifferences) -> str | None:
    """What the task's main metric comes to, in a sentence."""
    metric = _headline(task)
    if metric is None:
        return None
    difference = metric.difference
    if difference.method == "none":
        return f"{metric.name}: one case tells nothing."
    if difference.value == difference.low == difference.high == 0:
        return f"{metric.name}: no difference in any case."
    way = "above" if difference.value >= 0 else "below"
    ends = f"[{difference.low:+.2f}, {difference.high:+.2f}], p {p_text(metric.p_value, equals=True)}"
    meaning = (
        "more than chance explains at this level"
        if metric.is_clear
        else "these cases do not tell the two runs apart"
    )
    return f"{metric.name}: B is {abs(difference.value):.2f} {way} A, {ends}: {meaning}."
