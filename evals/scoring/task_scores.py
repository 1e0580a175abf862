"""What scoring a task comes to: the leaderboard's numbers, and the cases that they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cases.submissions.prediction import Task
from evals.scoring.counts import Counts


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
