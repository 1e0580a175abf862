"""Scores against weak labels say so, and are no official scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cases.submissions.prediction import Task
from evals.scoring.matching import Matched
from evals.scoring.task_scores import TaskScores

_READ_LABELS: frozenset[Task] = frozenset({"2025", "2026-2"})
"""Tasks that are scored against labels. The others read questions, answers and citations of people."""


def marked_if_weak(scores: TaskScores, matched: Sequence[Matched]) -> TaskScores:
    """The same scores, without anything that calls itself overall where a label is weak."""
    weak = sum(one.gold.weak for one in matched)
    if not weak or scores.task not in _READ_LABELS:
        return scores
    return replace(
        scores,
        values={name: value for name, value in scores.values.items() if not name.startswith("overall_")},
        overall=None,
        notes=(f"{weak_note(weak, len(matched))} There is no overall_score.", *scores.notes),
    )


def weak_note(weak: int, cases: int) -> str:
    """What a reader must know of them."""
    return (
        f"{weak:,} of {cases:,} cases are scored against weak labels, which were made from clinicians'"
        " answers: not comparable with scores against gold labels."
    )
