"""How good selections and rankings are, in counts of sentences, of characters, and by average precision."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranking.prefixes import checked_scores, ranking_order


class Counts(NamedTuple):
    """Sizes of a selection, of its gold set, and of what they share: of sentences or of characters."""

    correct: int
    predicted: int
    gold: int


class PrecisionRecallF1(NamedTuple):
    """Each between 0 and 1."""

    precision: float
    recall: float
    f1: float


def count_sentences(selected: Collection[int], labels: Sequence[bool]) -> Counts:
    """Count the selected positions of a document against its labels, shape (sentences,)."""
    return count_characters(selected, labels, [1] * len(labels))


def count_characters(selected: Collection[int], labels: Sequence[bool], lengths: Sequence[int]) -> Counts:
    """The same in characters, as Abridge 2025 scores its medical data.

    Args:
        selected: Positions.
        labels: Whether each sentence is evidence, shape (sentences,).
        lengths: Of the sentences in characters, shape (sentences,).
    """
    return Counts(
        correct=sum(lengths[position] for position in selected if labels[position]),
        predicted=sum(lengths[position] for position in selected),
        gold=sum(length for length, label in zip(lengths, labels, strict=True) if label),
    )


def scores(counts: Counts) -> PrecisionRecallF1:
    """Of one case or of pooled counts; nothing chosen where nothing is wanted is perfect."""
    correct, predicted, gold = counts
    if predicted == gold == 0:
        return PrecisionRecallF1(1.0, 1.0, 1.0)
    precision = correct / predicted if predicted else 0.0
    recall = correct / gold if gold else 0.0
    return PrecisionRecallF1(precision, recall, 2 * correct / (predicted + gold))


def pooled(counts: Iterable[Counts]) -> Counts:
    """The sums over all cases."""
    sums = [sum(each) for each in zip(*counts, strict=True)] or [0, 0, 0]
    return Counts(*sums)


def micro(counts: Iterable[Counts]) -> PrecisionRecallF1:
    """Of all cases' decisions together; what Abridge 2025 calls corpus precision, recall and F."""
    return scores(pooled(counts))


def macro(counts: Sequence[Counts]) -> PrecisionRecallF1:
    """Means of the cases' scores; macro F1 is the mean of F1s. No cases give nan."""
    if not counts:
        return PrecisionRecallF1(*[float("nan")] * 3)
    return PrecisionRecallF1(*np.mean([scores(each) for each in counts], axis=0).tolist())


def average_precision(
    values: Sequence[float] | NDArray[np.floating[Any]], labels: Sequence[bool]
) -> float | None:
    """Mean of the precisions at the ranks of the positive sentences; None where there is none.

    Args:
        values: Scores, shape (sentences,). Equal ones rank in document order.
        labels: Shape (sentences,).

    Raises:
        ValueError: A score is not finite, or there are not as many labels as scores.
    """
    ranked = checked_scores(values)
    if ranked.size != len(labels):
        raise ValueError(f"{len(labels)} labels for {ranked.size} scores")
    hits = np.asarray(labels, dtype=bool)[ranking_order(ranked)]
    if not hits.any():
        return None
    precisions = np.cumsum(hits) / np.arange(1, hits.size + 1)
    return float(precisions[hits].mean())
