"""Choosing a cut-off on labelled cases, and what such a choice is worth on a case it has not seen.

All grid points are counted at once in every case. Since micro-F1 is made of sums, leaving a case out is a
subtraction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from cases.texts import plural
from ranking.cutoffs import AdaptiveSoftK, Cutoff, FixedThreshold, ScoreGap, TopK, select
from ranking.measures import count_sentences, pooled, score_sums
from ranking.prefixes import (
    Floats,
    Integers,
    adaptive_prefix,
    checked_scores,
    gap_prefix,
    ranking_order,
    threshold_prefix,
    top_prefix,
)

RuleKind = Literal["top_k", "threshold", "gap", "adaptive"]
"""From the simplest rule to the one with the most to tune."""

# Every grid begins with the rule that chooses least, so that the first of equals does so on new cases too.
_TAUS = np.arange(19, 0, -1) / 20
_ENTROPY_TAUS = np.arange(6, 19) / 20
_ENTROPY_WEIGHTS = np.arange(-10, 13) / 20
_CONTINUOUS: tuple[RuleKind, ...] = ("threshold", "adaptive")
_MAX_GAP = 10
_GAP_LIMITS = [*range(1, _MAX_GAP + 1), None]
_EPSILON = 1e-12


@dataclass(frozen=True, slots=True)
class ScoredCase:
    """A labelled document with its logits, both of shape (sentences,).

    Raises:
        ValueError: They are not as many, or a score is not finite.
    """

    scores: Sequence[float] | NDArray[np.floating[Any]]
    labels: Sequence[bool]

    def __post_init__(self) -> None:
        if checked_scores(self.scores).size != len(self.labels):
            raise ValueError(f"{plural(len(self.labels), 'label')} for {len(self.scores)} scores")


class Tuned(NamedTuple):
    """A cut-off with its micro-F1.

    Attributes:
        f1: On the cases that it was tuned on, which is optimistic.
        held_out_f1: Of leave-one-case-out tuning; None where it was not asked for.
    """

    cutoff: Cutoff
    f1: float
    held_out_f1: float | None = None


class HeldOut(NamedTuple):
    """What the cut-off tuned on all other cases selects in a case: positions in document order."""

    cutoff: Cutoff
    selected: list[int]


def tune(
    kind: RuleKind, cases: Sequence[ScoredCase], *, fallback: bool = True, smoothed: bool = False
) -> Tuned:
    """Choose the parameters of a rule that give the best micro-F1.

    Of equals the one that chooses least wins: on these cases, then by its parameters.

    Args:
        kind: Of rule.
        cases: Of the split that tunes.
        fallback: Of thresholds, whether the best sentence is taken where none reaches them.
        smoothed: Of the rules with continuous parameters, thresholds and adaptive, compare means over a grid
            point and its direct neighbours in place of single points: on few cases F1 jumps from point to
            point, and a lone peak is mostly luck. Neighbouring sizes of a top-k are truly different rules.

    Raises:
        ValueError: There are no cases.
    """
    table = _count(kind, cases, fallback)
    f1 = score_sums(
        "f1", table.correct.sum(axis=0), table.predicted.sum(axis=0), table.gold.sum(), empty="perfect"
    )
    compared = neighbourhood_mean(f1, table.shape) if smoothed and kind in _CONTINUOUS else f1
    best = int(_best(compared, table.predicted.sum(axis=0)))
    return Tuned(table.rules[best], float(f1[best]))


def leave_one_case_out(
    kind: RuleKind, cases: Sequence[ScoredCase], *, fallback: bool = True, smoothed: bool = False
) -> list[HeldOut]:
    """For each case, tune on all others and select in it.

    Raises:
        ValueError: There are fewer than two cases.
    """
    if len(cases) < 2:
        raise ValueError(f"{plural(len(cases), 'case')}: leaving one out needs at least two")
    table = _count(kind, cases, fallback)
    correct = table.correct.sum(axis=0) - table.correct
    predicted = table.predicted.sum(axis=0) - table.predicted
    gold = (table.gold.sum() - table.gold)[:, None]
    f1 = score_sums("f1", correct, predicted, gold, empty="perfect")
    compared = neighbourhood_mean(f1, table.shape) if smoothed and kind in _CONTINUOUS else f1
    best = _best(compared, predicted)
    rules = [table.rules[point] for point in best.tolist()]
    return [HeldOut(rule, select(rule, case.scores)) for rule, case in zip(rules, cases, strict=True)]


def best_cutoff(
    cases: Sequence[ScoredCase],
    kinds: Sequence[RuleKind] = get_args(RuleKind),
    *,
    fallback: bool = True,
    smoothed: bool = False,
) -> Tuned:
    """The rule that does best in leave-one-case-out tuning, tuned on all cases; the simplest of equals.

    Rules are not compared on the cases that they are tuned on: that favours whichever has the largest grid.

    Raises:
        ValueError: There are fewer than two cases, or no kinds.
    """
    if not kinds:
        raise ValueError("no kind of rule to choose from")
    estimates = {
        kind: held_out_f1(leave_one_case_out(kind, cases, fallback=fallback, smoothed=smoothed), cases)
        for kind in sorted(kinds, key=get_args(RuleKind).index)
    }
    kind = max(estimates, key=lambda one: round(estimates[one], 12))
    tuned = tune(kind, cases, fallback=fallback, smoothed=smoothed)
    return tuned._replace(held_out_f1=estimates[kind])


def held_out_f1(held_out: Sequence[HeldOut], cases: Sequence[ScoredCase]) -> float:
    """Micro-F1 of what was selected in each case."""
    pairs = zip(held_out, cases, strict=True)
    counts = pooled(count_sentences(one.selected, case.labels) for one, case in pairs)
    correct, predicted, gold = np.asarray(counts)
    return float(score_sums("f1", correct, predicted, gold, empty="perfect"))


class _Table(NamedTuple):
    """Counts at every grid point.

    Attributes:
        rules: One a grid point, in the order of the columns.
        shape: Of the grid; its product is the number of rules.
        correct: Shape (cases, rules), as is `predicted`.
        gold: Shape (cases,).
    """

    rules: Sequence[Cutoff]
    shape: tuple[int, ...]
    correct: Integers
    predicted: Integers
    gold: Integers


def _count(kind: RuleKind, cases: Sequence[ScoredCase], fallback: bool) -> _Table:
    if not cases:
        raise ValueError("no cases to tune on")
    rules, shape = _grid(kind, fallback)
    predicted = np.zeros((len(cases), len(rules)), dtype=np.int64)
    correct = np.zeros_like(predicted)
    gold = np.zeros(len(cases), dtype=np.int64)
    for row, case in enumerate(cases):
        scores = checked_scores(case.scores)
        if not scores.size:
            continue
        order = ranking_order(scores)
        hits = np.concatenate(([0], np.cumsum(np.asarray(case.labels, dtype=np.int64)[order])))
        predicted[row] = _prefixes(kind, scores[order], fallback)
        correct[row] = hits[predicted[row]]
        gold[row] = hits[-1]
    return _Table(rules, shape, correct, predicted, gold)


def _grid(kind: RuleKind, fallback: bool) -> tuple[list[Cutoff], tuple[int, ...]]:
    match kind:
        case "top_k":
            return [TopK(k=k) for k in range(1, _MAX_GAP + 1)], (_MAX_GAP,)
        case "threshold":
            return [FixedThreshold(tau=tau, fallback=fallback) for tau in _TAUS.tolist()], _TAUS.shape
        case "gap":
            return [ScoreGap(max_k=k) for k in _GAP_LIMITS], (len(_GAP_LIMITS),)
        case "adaptive":
            rules: list[Cutoff] = [
                AdaptiveSoftK(tau0=tau0, entropy_weight=weight)
                for tau0 in _ENTROPY_TAUS.tolist()
                for weight in _ENTROPY_WEIGHTS.tolist()
            ]
            return rules, (_ENTROPY_TAUS.size, _ENTROPY_WEIGHTS.size)


def _prefixes(kind: RuleKind, ranked: Floats, fallback: bool) -> Integers:
    """Shape (rules,), in the order of `_grid`."""
    match kind:
        case "top_k":
            return np.asarray([top_prefix(ranked, k) for k in range(1, _MAX_GAP + 1)])
        case "threshold":
            return threshold_prefix(ranked, _TAUS, fallback)
        case "gap":
            return np.asarray([gap_prefix(ranked, limit) for limit in _GAP_LIMITS])
        case "adaptive":
            return adaptive_prefix(ranked, _ENTROPY_TAUS[:, None], _ENTROPY_WEIGHTS[None, :]).ravel()


def _best(f1: Floats, predicted: Integers) -> Integers:
    """Along the last axis: the highest, of equals the fewest sentences, of equals the first."""
    candidates = f1 >= f1.max(axis=-1, keepdims=True) - _EPSILON
    return np.asarray(np.where(candidates, predicted, np.iinfo(np.int64).max).argmin(axis=-1))


def neighbourhood_mean(f1: Floats, shape: tuple[int, ...]) -> Floats:
    """Mean over the grid points at most one step away along each axis; at the border over those there are."""
    grid = f1.reshape(*f1.shape[:-1], *shape)
    sums, counts = grid, np.ones(shape)
    for axis in range(-len(shape), 0):
        sums, counts = _sum_of_three(sums, axis), _sum_of_three(counts, axis)
    return np.asarray((sums / counts).reshape(f1.shape))


def _sum_of_three(values: Floats, axis: int) -> Floats:
    moved = np.moveaxis(values, axis, -1)
    padded = np.pad(moved, [(0, 0)] * (moved.ndim - 1) + [(1, 1)])
    return np.moveaxis(padded[..., :-2] + padded[..., 1:-1] + padded[..., 2:], -1, axis)
