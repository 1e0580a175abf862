"""Scores of a task by case, and its metrics as statistics over cases, under the leaderboard's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cases.submissions.archehr import Task
from evals.scoring.tasks import TASKS
from evals.statistics.case_totals import PERCENT, CaseStatistic, Floats, Mean, MeanOf, Pooled
from ranking.measures import PARTS, Counts, EmptyRule, scores

OVERALL = "overall_score"
AVAILABLE = "mean_of_available"
"""Of the text metrics that are there, where the official score lacks one. It is not official."""


@dataclass(frozen=True, slots=True)
class CaseScores:
    """What one case adds to the scores of a task.

    Attributes:
        counts: By variant: `strict`, `lenient` and `lenient_union` for evidence, `links` for subtask 4.
        texts: By text metric, such as `bleu`; 0 to 100, where BERTScore may be below and MEDCON above.
    """

    case_id: str
    counts: Mapping[str, Counts] = field(default_factory=dict)
    texts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskScores:
    """Scores of one task.

    Attributes:
        values: By the leaderboard's names, times 100.
        extra: Values that the leaderboard does not have, by names that say what they are.
        overall: The official `overall_score`; None where a part of it is not computed, or labels are weak.
        mean_of_available: Mean of the text metrics that are computed, where `overall` is None and the task
            has any. Not comparable with an official score.
        not_computed: Why a metric is missing, by its name.
        notes: What a reader must know to compare these numbers, a sentence each.
        cases: One entry a scored case, in the order of the key.
        unscored: Ids of the key's cases without a prediction; an official scorer refuses such a submission.
    """

    task: Task
    values: Mapping[str, float]
    overall: float | None
    cases: tuple[CaseScores, ...]
    extra: Mapping[str, float] = field(default_factory=dict)
    mean_of_available: float | None = None
    not_computed: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unscored: tuple[str, ...] = ()


class Measure(NamedTuple):
    """A metric.

    Attributes:
        main: Whether it belongs into a short table.
    """

    name: str
    statistic: CaseStatistic
    main: bool


@dataclass(frozen=True, slots=True)
class PairedScores:
    """A task's cases that are scored in both runs.

    Attributes:
        case_ids: Cases, in the order of the first run's scores.
        first: One row a case, shape (cases, columns): what the statistics of `measures` sum.
        second: The same of the second run.
        only_first: Cases that are scored in the first run alone.
        only_second: Cases that are scored in the second run alone.
        not_shared: Metrics that only one of the runs has.
    """

    task: Task
    case_ids: tuple[str, ...]
    first: Floats
    second: Floats
    measures: tuple[Measure, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    not_shared: tuple[str, ...]


def pair_scores(first: TaskScores, second: TaskScores) -> PairedScores:
    """Put the cases of two runs' scores of one task beside each other."""
    one, other = ({case.case_id: case for case in scored.cases} for scored in (first, second))
    case_ids = tuple(case_id for case_id in one if case_id in other)
    sides = [[side[case_id] for case_id in case_ids] for side in (one, other)]
    variants, texts = _shared([*sides[0], *sides[1]])
    empty = TASKS[first.task].empty
    rows = [[_row(case, variants, texts, empty) for case in side] for side in sides]
    columns = [*rows[0][0]] if case_ids else []
    matrices = [
        np.asarray([[*row.values()] for row in side], dtype=np.float64).reshape(len(side), len(columns))
        for side in rows
    ]
    every = {*_names(first.cases), *_names(second.cases)}
    return PairedScores(
        task=first.task,
        case_ids=case_ids,
        first=matrices[0],
        second=matrices[1],
        measures=_measures(first.task, columns, variants, texts, empty),
        only_first=tuple(case_id for case_id in one if case_id not in other),
        only_second=tuple(case_id for case_id in other if case_id not in one),
        not_shared=tuple(sorted(every - {*variants, *texts})) if case_ids else (),
    )


def _names(cases: Sequence[CaseScores]) -> list[str]:
    return [name for case in cases for name in (*case.counts, *case.texts)]


def _shared(cases: Sequence[CaseScores]) -> tuple[list[str], list[str]]:
    """Variants of counts, and text metrics, that every case of both runs has."""
    if not cases:
        return [], []
    variants = [name for name in cases[0].counts if all(name in case.counts for case in cases)]
    texts = [name for name in cases[0].texts if all(name in case.texts for case in cases)]
    return variants, texts


def _row(
    case: CaseScores, variants: Sequence[str], texts: Sequence[str], empty: EmptyRule
) -> dict[str, float]:
    """What statistics read of a case, by column: of each variant its counts and scores; the text metrics."""
    row: dict[str, float] = {}
    for variant in variants:
        counts = case.counts[variant]
        in_case = scores(counts, empty)._asdict()
        row |= {_column(variant, name): number for name, number in counts._asdict().items()}
        row |= {_column(variant, part): PERCENT * value for part, value in in_case.items()}
    return row | {name: case.texts[name] for name in texts}


def _column(variant: str, name: str) -> str:
    return f"{variant} {name}"


def _measures(
    task: Task, columns: Sequence[str], variants: Sequence[str], texts: Sequence[str], empty: EmptyRule
) -> tuple[Measure, ...]:
    place = {column: number for number, column in enumerate(columns)}
    by_name = {variant.name: variant for variant in TASKS[task].variants}
    found: list[Measure] = []
    for name in variants:
        variant = by_name[name]
        # The other year's meaning of lenient stands in the long tables only.
        main, strict = variant.official, variant.prefix in ("", "strict_")
        # The three counts stand side by side.
        counts = place[_column(name, "correct")]
        for part in PARTS:
            micro = Pooled(counts, part, empty, PERCENT)
            found.append(Measure(f"{variant.prefix}micro_{part}", micro, main and (strict or part == "f1")))
        for part in PARTS:
            macro = Mean(place[_column(name, part)])
            found.append(Measure(f"{variant.prefix}macro_{part}", macro, main and part == "f1"))
    means = {name: Mean(place[name]) for name in texts}
    found += [Measure(name, mean, True) for name, mean in means.items()]
    overall = _overall(task, means, found)
    if overall is not None:
        return (*found, Measure(OVERALL, overall, True))
    parts = tuple(means[name] for name in TASKS[task].averaged if name in means)
    return (*found, Measure(AVAILABLE, MeanOf(parts), True)) if parts else tuple(found)


def _overall(
    task: Task, means: Mapping[str, CaseStatistic], measures: Sequence[Measure]
) -> CaseStatistic | None:
    """The official score of a task with text metrics; the others' is one of their measures."""
    names = TASKS[task].averaged
    if not names or not set(names) <= means.keys():
        return None
    texts = MeanOf(tuple(means[name] for name in names))
    headline = TASKS[task].headline
    if headline is None:
        return texts
    factuality = next((one.statistic for one in measures if one.name == headline), None)
    return None if factuality is None else MeanOf((factuality, texts))
