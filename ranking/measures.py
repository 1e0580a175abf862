"""Precision, recall, F1, average precision, nDCG, recall at a depth: every measure of sets and rankings.

All are 0 to 1; percent are made where they are shown. Where definitions differ there is a parameter: the
value of 0/0 (`EmptyRule`), and what average precision divides by (`Divisor`).

F1 has two forms that differ in their last bit. `scores` computes 2PR / (P + R), as official scorers do.
`score_sums` computes 2 * correct / (predicted + gold) from arrays of sums, as resampling and tuning need it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from cases.texts import plural
from ranking.prefixes import checked_scores, ranking_order

_Item = TypeVar("_Item")
_Numbers = NDArray[np.floating[Any]] | NDArray[np.integer[Any]]

Part = Literal["precision", "recall", "f1"]
PARTS: tuple[Part, ...] = get_args(Part)

EmptyRule = Literal["perfect", "zero"]
"""Score of an empty prediction against empty gold: 1 in subtask 2 of ArchEHR-QA 2026, mostly 0."""

DEPTH = 10
"""Documents and snippets that BioASQ takes."""

Divisor = Literal["capped", "gold", "ten"]
"""Divisor of average precision: the relevant ones, at most the depth, as BioASQ does from its year 6 on;
all relevant ones, as trec_eval and BioASQ 1 and 2 do; the depth, as BioASQ 3 to 5 did with 10."""


class Counts(NamedTuple):
    """Sizes of a prediction, its gold set and their intersection, in items or characters."""

    correct: int
    predicted: int
    gold: int


class PrecisionRecallF1(NamedTuple):
    """Each between 0 and 1."""

    precision: float
    recall: float
    f1: float

    def in_percent(self) -> dict[str, float]:
        """By name, between 0 and 100, as people and programs are shown them."""
        return {name: 100 * value for name, value in self._asdict().items()}


def ratio(part: float, whole: float, empty: float = 0.0) -> float:
    """`part / whole`, and `empty` where `whole` is 0."""
    return part / whole if whole else empty


def f1_of_rates(precision: float, recall: float) -> float:
    """Harmonic mean of precision and recall, 0 where both are."""
    return ratio(2 * precision * recall, precision + recall)


def count(predicted: AbstractSet[_Item], gold: AbstractSet[_Item]) -> Counts:
    """Count a prediction against its gold set."""
    return Counts(len(predicted & gold), len(predicted), len(gold))


def count_characters(selected: Collection[int], labels: Sequence[bool], lengths: Sequence[int]) -> Counts:
    """Count the selected positions of a document in characters, as Abridge 2025 scores its medical data.

    Labels and lengths have shape (sentences,).
    """
    return Counts(
        correct=sum(lengths[position] for position in selected if labels[position]),
        predicted=sum(lengths[position] for position in selected),
        gold=sum(length for length, label in zip(lengths, labels, strict=True) if label),
    )


def pooled(counts: Iterable[Counts]) -> Counts:
    """The sums over all cases."""
    sums = [sum(each) for each in zip(*counts, strict=True)] or [0, 0, 0]
    return Counts(*sums)


def scores(counts: Counts, empty: EmptyRule = "zero") -> PrecisionRecallF1:
    """Precision, recall and F1 of one prediction, or of pooled counts; any other denominator of 0 gives 0."""
    correct, predicted, gold = counts
    if predicted == gold == 0 and empty == "perfect":
        return PrecisionRecallF1(1.0, 1.0, 1.0)
    precision, recall = ratio(correct, predicted), ratio(correct, gold)
    return PrecisionRecallF1(precision, recall, f1_of_rates(precision, recall))


def micro(counts: Iterable[Counts], empty: EmptyRule) -> PrecisionRecallF1:
    """Scores of the counts of all cases together; what Abridge 2025 calls the corpus score."""
    return scores(pooled(counts), empty)


def macro(counts: Sequence[Counts], empty: EmptyRule) -> PrecisionRecallF1:
    """Means of the cases' scores; macro F1 is the mean of F1s. No cases give nan."""
    if not counts:
        return PrecisionRecallF1(*[float("nan")] * 3)
    return PrecisionRecallF1(*np.mean([scores(each, empty) for each in counts], axis=0).tolist())


def ratios(parts: _Numbers, wholes: _Numbers) -> NDArray[np.float64]:
    """`ratio` of arrays of one shape."""
    values = np.zeros(np.shape(wholes))
    return np.asarray(np.divide(parts, wholes, out=values, where=np.asarray(wholes) > 0))


def score_sums(
    part: Part, correct: _Numbers, predicted: _Numbers, gold: _Numbers, empty: EmptyRule
) -> NDArray[np.float64]:
    """Precision, recall or F1 of sums of counts, arrays of one shape; F1 in its form for sums."""
    above, below = {
        "precision": (correct, predicted),
        "recall": (correct, gold),
        "f1": (2 * correct, predicted + gold),
    }[part]
    values = ratios(above, below)
    return np.where(predicted + gold == 0, 1.0, values) if empty == "perfect" else values


def average_precision(
    ranked: Sequence[str], relevant: Collection[str], depth: int = DEPTH, divisor: Divisor = "capped"
) -> float:
    """Sum of the precisions at the ranks of the relevant documents, over what `divisor` says, or 0."""
    wanted = frozenset(relevant)
    if not wanted:
        return 0.0
    hits, total = 0, 0.0
    for rank, id_ in enumerate(ranked[:depth], start=1):
        if id_ in wanted:
            hits += 1
            total += hits / rank
    return total / {"capped": min(depth, len(wanted)), "gold": len(wanted), "ten": depth}[divisor]


def average_precision_of_scores(
    values: Sequence[float] | NDArray[np.floating[Any]], labels: Sequence[bool]
) -> float | None:
    """Mean of the precisions at the ranks of the positive sentences; None where there is none.

    Values and labels have shape (sentences,); equal values rank in document order.

    Raises:
        ValueError: A score is not finite, or there are not as many labels as scores.
    """
    ranked = checked_scores(values)
    if ranked.size != len(labels):
        raise ValueError(f"{plural(len(labels), 'label')} for {ranked.size} scores")
    hits = np.asarray(labels, dtype=bool)[ranking_order(ranked)]
    if not hits.any():
        return None
    precisions = np.cumsum(hits) / np.arange(1, hits.size + 1)
    return float(precisions[hits].mean())


def recall(ranked: Sequence[str], relevant: Collection[str], depth: int = DEPTH) -> float:
    """Share of the relevant documents among the first `depth`; 0 where none is relevant."""
    wanted = frozenset(relevant)
    return ratio(len(wanted.intersection(ranked[:depth])), len(wanted))


def ndcg(
    ranked: Sequence[str],
    relevant: Collection[str],
    add: Callable[[Iterable[float]], float] = math.fsum,
) -> float:
    """Normalised discounted cumulative gain (Järvelin and Kekäläinen 2002) with gain 1 and log2(rank + 1).

    It is `nDCG` of trec_eval, and 0 where none is relevant.

    Args:
        ranked: Ids, best first, none twice.
        relevant: Ids.
        add: How gains are added, which decides the last bit.
    """
    wanted = frozenset(relevant)
    gain = add(_discounted(rank) for rank, id_ in enumerate(ranked[:DEPTH], start=1) if id_ in wanted)
    return ratio(gain, add(_discounted(rank) for rank in range(1, min(DEPTH, len(wanted)) + 1)))


def _discounted(rank: int) -> float:
    return 1 / math.log2(rank + 1)
