"""The metrics of a task as statistics over its cases, under the leaderboard's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cases.submissions.prediction import Task
from evals.scoring.counts import EmptyRule, scores
from evals.scoring.task_scores import CaseScores, TaskScores
from evals.scoring.texts import OVERALL as TEXTS_OF_OVERALL
from evals.statistics.case_totals import PERCENT, CaseStatistic, Floats, Mean, MeanOf, Part, Pooled

OVERALL = "overall_score"
AVAILABLE = "mean_of_available"
"""Of the text metrics that are there, where the official score lacks one. It is not official."""

_PARTS: tuple[Part, ...] = ("precision", "recall", "f1")


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
    empty: EmptyRule = "perfect" if first.task == "2026-2" else "zero"
    every = {*_names(first.cases), *_names(second.cases)}
    return PairedScores(
        task=first.task,
        case_ids=case_ids,
        first=_matrix(sides[0], variants, texts, empty),
        second=_matrix(sides[1], variants, texts, empty),
        measures=_measures(first.task, variants, texts, empty),
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


def _matrix(
    cases: Sequence[CaseScores], variants: Sequence[str], texts: Sequence[str], empty: EmptyRule
) -> Floats:
    """For each variant its counts and its precision, recall and F1 in the case; then the text metrics."""
    rows = [
        [
            *(
                number
                for variant in variants
                for number in (
                    *case.counts[variant],
                    *(PERCENT * value for value in scores(case.counts[variant], empty)),
                )
            ),
            *(case.texts[name] for name in texts),
        ]
        for case in cases
    ]
    columns = 2 * len(_PARTS) * len(variants) + len(texts)
    return np.asarray(rows, dtype=np.float64).reshape(len(cases), columns)


def _measures(
    task: Task, variants: Sequence[str], texts: Sequence[str], empty: EmptyRule
) -> tuple[Measure, ...]:
    found: list[Measure] = []
    for number, variant in enumerate(variants):
        start = 2 * len(_PARTS) * number
        name = _leaderboard_name(task, variant)
        strict = name in ("", "strict_")
        # The other year's meaning of lenient stands in the long tables only.
        main = variant != ("lenient" if task == "2025" else "lenient_union")
        for part in _PARTS:
            found.append(
                Measure(f"{name}micro_{part}", Pooled(start, part, empty), main and (strict or part == "f1"))
            )
        for offset, part in enumerate(_PARTS):
            column = start + len(_PARTS) + offset
            found.append(Measure(f"{name}macro_{part}", Mean(column), main and part == "f1"))
    begin = 2 * len(_PARTS) * len(variants)
    means = {name: Mean(begin + offset) for offset, name in enumerate(texts)}
    found += [Measure(name, mean, True) for name, mean in means.items()]
    overall = _overall(task, means, found)
    if overall is not None:
        return (*found, Measure(OVERALL, overall, True))
    parts = tuple(means[name] for name in TEXTS_OF_OVERALL.get(task, ()) if name in means)
    return (*found, Measure(AVAILABLE, MeanOf(parts), True)) if parts else tuple(found)


def _leaderboard_name(task: Task, variant: str) -> str:
    """What precedes `micro` and `macro`; the scorer of 2025 says lenient for what 2026 has no name for."""
    if variant == "links":
        return ""
    if task == "2025":
        return {"lenient_union": "lenient_", "lenient": "lenient_2026_"}.get(variant, f"{variant}_")
    return f"{variant}_"


def _overall(
    task: Task, means: Mapping[str, CaseStatistic], measures: Sequence[Measure]
) -> CaseStatistic | None:
    """The official score of a task with text metrics; the others' is one of their measures."""
    names = TEXTS_OF_OVERALL.get(task, ())
    if not names or not set(names) <= means.keys():
        return None
    texts = MeanOf(tuple(means[name] for name in names))
    if task != "2025":
        return texts
    factuality = next((one.statistic for one in measures if one.name == "strict_micro_f1"), None)
    return None if factuality is None else MeanOf((factuality, texts))
