"""Choosing a rule on labelled cases, and what such a choice is worth on a case it has not seen.

All rules are counted at once in every case. Since micro-F1 is computed from sums, leaving a case out is a
subtraction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from cases.texts import plural
from ranking.cutoffs import AdaptiveSoftK, Cutoff, FixedThreshold, ScoreGap, TopK
from ranking.measures import score_sums
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
_DIGITS = 12


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
        ValueError: No cases were given.
    """
    if not cases:
        raise ValueError("no cases to tune on")
    rules, counted = count_cutoffs([kind], cases, fallback=fallback, smoothed=smoothed)
    best = counted.best(counted.families[0])
    return Tuned(rules[best.column], best.f1)


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
        ValueError: There are fewer than two cases.
    """
    if len(cases) < 2:
        raise ValueError(f"{plural(len(cases), 'case')}: leaving one out needs at least two")
    ordered = sorted(kinds, key=get_args(RuleKind).index)
    rules, counted = count_cutoffs(ordered, cases, fallback=fallback, smoothed=smoothed)
    estimates = [counted.held_out_f1(family) for family in counted.families]
    kind = _first_highest(estimates)
    best = counted.best(counted.families[kind])
    return Tuned(rules[best.column], best.f1, estimates[kind])


class Family(NamedTuple):
    """Rules of one kind: a grid of parameters, which begins with the rule that chooses least.

    Attributes:
        columns: Their place among all rules.
        shape: Of the grid; its product is their number.
        smoothed: Whether means over neighbouring grid points are compared: on few cases F1 jumps from point
            to point, and a lone peak is mostly luck.
    """

    columns: slice
    shape: tuple[int, ...]
    smoothed: bool


class Chosen(NamedTuple):
    """A rule, by its column, and its micro-F1 on the cases that it was chosen on."""

    column: int
    f1: float


class Counted(NamedTuple):
    """Counts of every rule in cases, or in parts of several cases that are left out together.

    Attributes:
        families: Of the rules, from the simplest.
        correct: Shape (parts, rules), as is `predicted`.
        gold: Shape (parts,).
    """

    families: Sequence[Family]
    correct: Integers
    predicted: Integers
    gold: Integers

    def best(self, family: Family) -> Chosen:
        """The rule with the highest F1; among equals, the one that selects least here, then the first."""
        f1 = _f1(self.correct.sum(axis=0), self.predicted.sum(axis=0), self.gold.sum())
        column = int(_best_columns(family, f1, self.predicted.sum(axis=0)))
        return Chosen(column, float(f1[column]))

    def best_by_others(self, family: Family) -> Integers:
        """For each part the column of the rule that is best on all others, shape (parts,)."""
        correct = self.correct.sum(axis=0) - self.correct
        predicted = self.predicted.sum(axis=0) - self.predicted
        f1 = _f1(correct, predicted, (self.gold.sum() - self.gold)[:, None])
        return _best_columns(family, f1, predicted)

    def held_out_f1(self, family: Family) -> float:
        """Micro-F1 where each part is cut by the rule that all others choose."""
        at = (np.arange(self.gold.size), self.best_by_others(family))
        return float(_f1(self.correct[at].sum(), self.predicted[at].sum(), self.gold.sum()))

    def best_of(self, families: Sequence[Family]) -> Chosen:
        """The best rule of the family that does best on parts it was not tuned on; the simplest of equals."""
        if len(families) == 1 or self.gold.size < 2:
            return self.best(families[0])
        return self.best(families[_first_highest([self.held_out_f1(family) for family in families])])

    def without(self, part: int) -> Counted:
        correct, predicted, gold = (np.delete(values, part, axis=0) for values in self[1:])
        return Counted(self.families, correct, predicted, gold)


def _first_highest(values: Sequence[float]) -> int:
    """Position of the highest value; differences in the last bits of sums do not count."""
    return int(np.argmax(np.round(values, _DIGITS)))


def count_cutoffs(
    kinds: Sequence[RuleKind], cases: Sequence[ScoredCase], *, fallback: bool = True, smoothed: bool = False
) -> tuple[list[Cutoff], Counted]:
    """Rules of some kinds, and their counts in every case."""
    rules: list[Cutoff] = []
    families: list[Family] = []
    for kind in kinds:
        grid, shape = _grid(kind, fallback)
        columns = slice(len(rules), len(rules) + len(grid))
        families.append(Family(columns, shape, smoothed and kind in _CONTINUOUS))
        rules += grid
    predicted = np.zeros((len(cases), len(rules)), dtype=np.int64)
    correct = np.zeros_like(predicted)
    gold = np.zeros(len(cases), dtype=np.int64)
    for row, case in enumerate(cases):
        scores = checked_scores(case.scores)
        if not scores.size:
            continue
        order = ranking_order(scores)
        hits = np.concatenate(([0], np.cumsum(np.asarray(case.labels, dtype=np.int64)[order])))
        predicted[row] = np.concatenate([_prefixes(kind, scores[order], fallback) for kind in kinds])
        correct[row] = hits[predicted[row]]
        gold[row] = hits[-1]
    return rules, Counted(families, correct, predicted, gold)


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


def _f1(correct: Integers, predicted: Integers, gold: Integers) -> Floats:
    return score_sums("f1", correct, predicted, gold, empty="perfect")


def _best_columns(family: Family, f1: Floats, predicted: Integers) -> Integers:
    """Along the last axis: the highest, of equals the fewest sentences, of equals the first."""
    f1, predicted = f1[..., family.columns], predicted[..., family.columns]
    compared = neighbourhood_mean(f1, family.shape) if family.smoothed else f1
    candidates = compared >= compared.max(axis=-1, keepdims=True) - _EPSILON
    first = np.where(candidates, predicted, np.iinfo(np.int64).max).argmin(axis=-1)
    return np.asarray(family.columns.start + first)


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
