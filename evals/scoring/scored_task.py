"""A scored task, whatever the system: cases, their numbers, and scores as functions of sums over the cases.

Scores, intervals, comparisons, experiments, cards and the viewer read only this.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from evals.pages.tables import POINTS, Format
from evals.statistics.bootstrap import Interval, interval_fields, intervals_of
from evals.statistics.case_totals import CaseStatistic, Floats


def title_of(name: str) -> str:
    """The name of a score as people write it: `strict_micro_f1` is strict micro F1."""
    return name.replace("_", " ").replace("f1", "F1")


class Score(NamedTuple):
    """A named function of sums over cases.

    Attributes:
        main: Whether it belongs into a short table.
    """

    name: str
    statistic: CaseStatistic
    main: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredTask:
    """A task's cases and scores.

    Attributes:
        task: Its name, such as `2026-2`.
        title: For people.
        case_ids: Scored cases, in the order of the rows.
        columns: Names of the numbers of a case.
        matrix: Shape (cases, columns).
        scores: In the order of tables.
        headline: Name of the score that ranks runs.
        headline_title: For people.
        case_score: Name of the score of a single case; empty where the headline has a meaning for one case.
        unscored: Ids of cases of the key without predictions.
        notes: Cautions for comparing these numbers, a sentence each.
        form: How values are written.
    """

    task: str
    title: str
    case_ids: tuple[str, ...]
    columns: tuple[str, ...]
    matrix: Floats
    scores: tuple[Score, ...]
    headline: str
    headline_title: str = ""
    case_score: str = ""
    unscored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    form: Format = POINTS

    @property
    def statistics(self) -> dict[str, CaseStatistic]:
        return {score.name: score.statistic for score in self.scores}

    @property
    def values(self) -> dict[str, float]:
        """All scores by name."""
        totals = self.matrix.sum(axis=0)
        return {score.name: float(score.statistic.of(totals, len(self.matrix))) for score in self.scores}

    @property
    def headline_value(self) -> float:
        return self.values[self.headline]

    @property
    def shown(self) -> Mapping[str, float]:
        """Values that `evigraph score --fail-under` may name."""
        return self.values

    def by_case(self, *, worst_first: bool = False) -> dict[str, float]:
        """The score of each case, by id; equal scores stay in the order of the rows."""
        statistic = self.statistics[self.case_score or self.headline]
        found = dict(zip(self.case_ids, statistic.of(self.matrix, 1).tolist(), strict=True))
        return dict(sorted(found.items(), key=lambda one: one[1])) if worst_first else found

    def intervals(self) -> dict[str, Interval]:
        """All scores with 95 % intervals, by name; the ends are nan for a single case."""
        return intervals_of(self.matrix, self.statistics)

    def only(self, case_ids: Collection[str]) -> Self:
        """The task on some of its cases."""
        rows = [row for row, case_id in enumerate(self.case_ids) if case_id in case_ids]
        return replace(self, case_ids=tuple(self.case_ids[row] for row in rows), matrix=self.matrix[rows])

    def as_json(self) -> dict[str, Any]:
        """One object for programs."""
        return {
            "scored_cases": len(self.case_ids),
            "unscored_cases": list(self.unscored),
            **interval_fields(self.intervals(), len(self.case_ids)),
        }


@dataclass(frozen=True, slots=True)
class PairedTask:
    """A task's cases that are scored in both runs.

    Attributes:
        task: The first run's.
        case_ids: In the order of the first run.
        first: One row a case, shape (cases, columns).
        second: The same of the second run.
        scores: Those of both runs.
        only_first: Cases that are scored in the first run alone.
        only_second: Cases that are scored in the second run alone.
        not_shared: Scores that only one of the runs has.
    """

    task: ScoredTask
    case_ids: tuple[str, ...]
    first: Floats
    second: Floats
    scores: tuple[Score, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    not_shared: tuple[str, ...]


def pair(first: ScoredTask, second: ScoredTask) -> PairedTask:
    """Align two runs' scores of one task by case."""
    one, other = ({id_: row for row, id_ in enumerate(task.case_ids)} for task in (first, second))
    case_ids = tuple(id_ for id_ in one if id_ in other)
    columns = {name: place for place, name in enumerate(second.columns)}
    rows = [other[id_] for id_ in case_ids]
    of_second = np.zeros((len(rows), len(first.columns)))
    for place, name in enumerate(first.columns):
        if name in columns:
            of_second[:, place] = second.matrix[rows, columns[name]]
    shared = [
        score
        for score in first.scores
        if score.name in second.statistics
        and all(first.columns[place] in columns for place in score.statistic.columns)
    ]
    every = {*first.statistics, *second.statistics}
    return PairedTask(
        task=first,
        case_ids=case_ids,
        first=first.matrix[[one[id_] for id_ in case_ids]],
        second=of_second,
        scores=tuple(shared),
        only_first=tuple(id_ for id_ in one if id_ not in other),
        only_second=tuple(id_ for id_ in other if id_ not in one),
        not_shared=tuple(sorted(every - {score.name for score in shared})) if case_ids else (),
    )


def on_common_cases(tasks: Mapping[str, ScoredTask]) -> dict[str, ScoredTask]:
    """The tasks on their common cases; empty if they share none."""
    common = set.intersection(*({*task.case_ids} for task in tasks.values())) if tasks else set()
    return {name: task.only(common) for name, task in tasks.items()} if common else {}


def by_task(runs: Sequence[Sequence[ScoredTask]]) -> list[list[ScoredTask]]:
    """The tasks that all runs have, in the order of the first run."""
    named = [{task.task: task for task in tasks} for tasks in runs]
    return [[tasks[name] for tasks in named] for name in named[0] if all(name in one for one in named)]
