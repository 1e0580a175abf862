"""Precision, recall and F1 of predicted sets, pooled over cases or averaged, with a task's rule for 0/0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, NamedTuple, TypeVar

import numpy as np

_Item = TypeVar("_Item")

EmptyRule = Literal["perfect", "zero"]
"""What nothing predicted where nothing is wanted scores: 1 in subtask 2 of 2026, 0 everywhere else."""


class Counts(NamedTuple):
    """Sizes of a prediction, of its gold set, and of what they share."""

    correct: int
    predicted: int
    gold: int


class PrecisionRecallF1(NamedTuple):
    """Each between 0 and 1."""

    precision: float
    recall: float
    f1: float


def count(predicted: AbstractSet[_Item], gold: AbstractSet[_Item]) -> Counts:
    """Count a prediction against its gold set."""
    return Counts(len(predicted & gold), len(predicted), len(gold))


def scores(counts: Counts, empty: EmptyRule) -> PrecisionRecallF1:
    """Precision, recall and F1 of one set, or of pooled counts; a denominator of 0 gives 0."""
    correct, predicted, gold = counts
    if predicted == gold == 0 and empty == "perfect":
        return PrecisionRecallF1(1.0, 1.0, 1.0)
    precision = correct / predicted if predicted else 0.0
    recall = correct / gold if gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return PrecisionRecallF1(precision, recall, f1)


def micro(counts: Iterable[Counts], empty: EmptyRule) -> PrecisionRecallF1:
    """Scores of the counts of all cases together."""
    pooled = [sum(each) for each in zip(*counts, strict=True)] or [0, 0, 0]
    return scores(Counts(*pooled), empty)


def macro(counts: Sequence[Counts], empty: EmptyRule) -> PrecisionRecallF1:
    """Means of the cases' scores; macro F1 is the mean of F1s. No cases give nan."""
    if not counts:
        return PrecisionRecallF1(*[float("nan")] * 3)
    return PrecisionRecallF1(*np.mean([scores(each, empty) for each in counts], axis=0).tolist())
