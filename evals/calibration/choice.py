"""Choosing a rule, and what the choice is worth on cases that it has not seen.

Nested: for each part that is left out, the kind of rule is chosen by leaving out each further part in turn,
and its parameters on all that remains. Up to 200 cases each case is a part of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from evals.calibration.candidates import Family, Source, Table
from ranking.measures import score_sums
from ranking.prefixes import Floats, Integers
from ranking.tuning import neighbourhood_mean

MOST_SINGLE_PARTS = 200
PARTS = 50
_EPSILON = 1e-12
_NOISE = 12
"""Digits: differences in the last bits of sums are no differences."""


class Parts(NamedTuple):
    """Which part each case belongs to; cases with equal texts share one.

    Attributes:
        of_case: From 0, shape (cases,).
        size: How many there are.
    """

    of_case: Integers
    size: int


def parts_of(fingerprints: Sequence[str]) -> Parts:
    """Divide cases, whatever their order."""
    names = sorted(set(fingerprints), key=_place)
    place = {name: number for number, name in enumerate(names)}
    count = len(names) if len(names) <= MOST_SINGLE_PARTS else PARTS
    return Parts(np.array([place[name] % count for name in fingerprints], dtype=np.int64), count)


def held_out(fingerprints: Sequence[str], share: float) -> Integers:
    """Positions of the cases that a share of the texts sets aside, in order."""
    names = sorted(set(fingerprints), key=_place)
    aside = frozenset(names[: max(1, round(share * len(names)))])
    return np.array([row for row, name in enumerate(fingerprints) if name in aside], dtype=np.int64)


def _place(fingerprint: str) -> str:
    # Not the fingerprint itself: it may end in what a user chose ids by.
    return hashlib.sha256(f"calibrate {fingerprint}".encode()).hexdigest()


class Chosen(NamedTuple):
    """A rule, by its column in the table, and its micro F1 on the cases that it was chosen on."""

    column: int
    f1: float


def choose(table: Table, rows: Integers, parts: Parts, sources: Sequence[Source]) -> Chosen:
    """The rule of the best kind, with the best parameters, on some cases.

    Args:
        table: Counts of all rules.
        rows: The cases.
        parts: What is left out in turn to compare the kinds; of all cases of the table.
        sources: What rules may read.
    """
    sums = _Sums.of(table, parts, rows)
    family = _best_family(table, sums, table.of(sources))
    f1 = _f1(sums.correct.sum(axis=0), sums.predicted.sum(axis=0), sums.gold.sum())
    column = _best(table, family, f1, sums.predicted.sum(axis=0))
    return Chosen(column, float(f1[column]))


def choose_by_others(
    table: Table, parts: Parts, sources: Sequence[Source], tick: Callable[[], None] = lambda: None
) -> Integers:
    """Of each case the column of the rule that all other parts choose, shape (cases,).

    Args:
        table: Counts of all rules.
        parts: What is left out in turn.
        sources: What rules may read.
        tick: Called after each part.
    """
    sums = _Sums.of(table, parts, np.arange(table.gold.size))
    picked = np.zeros(parts.size, dtype=np.int64)
    families = table.of(sources)
    for part in range(parts.size):
        rest = sums.without(part)
        family = _best_family(table, rest, families)
        predicted = rest.predicted.sum(axis=0)
        f1 = _f1(rest.correct.sum(axis=0), predicted, rest.gold.sum())
        picked[part] = _best(table, family, f1, predicted)
        tick()
    return np.asarray(picked[parts.of_case])


class _Sums(NamedTuple):
    """Of parts: correct and predicted of shape (parts, rules), gold of shape (parts,)."""

    correct: Integers
    predicted: Integers
    gold: Integers

    @classmethod
    def of(cls, table: Table, parts: Parts, rows: Integers) -> _Sums:
        def total(values: Integers) -> Integers:
            sums = np.zeros((parts.size, *values.shape[1:]), dtype=np.int64)
            np.add.at(sums, parts.of_case[rows], values[rows])
            return sums

        every = cls(total(table.correct), total(table.predicted), total(table.gold))
        there = np.bincount(parts.of_case[rows], minlength=parts.size) > 0
        return cls(*(values[there] for values in every))

    def without(self, part: int) -> _Sums:
        return _Sums(*(np.delete(values, part, axis=0) for values in self))


def _best_family(table: Table, sums: _Sums, families: Sequence[Family]) -> Family:
    """By micro F1 of each part with the parameters that the other parts choose; the simplest of equals."""
    if len(sums.gold) < 2 or len(families) == 1:
        return families[0]
    correct = sums.correct.sum(axis=0) - sums.correct
    predicted = sums.predicted.sum(axis=0) - sums.predicted
    f1 = _f1(correct, predicted, (sums.gold.sum() - sums.gold)[:, None])
    rows = np.arange(len(sums.gold))
    scores = []
    for family in families:
        picked = _best_columns(family, f1[:, family.columns], predicted[:, family.columns])
        left_out = (sums.correct[rows, picked].sum(), sums.predicted[rows, picked].sum(), sums.gold.sum())
        scores.append(round(float(_f1(*map(np.asarray, left_out))), _NOISE))
    return families[int(np.argmax(scores))]


def _best(table: Table, family: Family, f1: Floats, predicted: Integers) -> int:
    columns = family.columns
    return int(_best_columns(family, f1[None, columns], predicted[None, columns])[0])


def _best_columns(family: Family, f1: Floats, predicted: Integers) -> Integers:
    """The highest mean over neighbours of the grid, of equals the one with fewest sentences, then the first.

    On few cases F1 jumps from point to point, and a lone peak is mostly luck.
    """
    smoothed = neighbourhood_mean(f1, family.shape)
    candidates = smoothed >= smoothed.max(axis=-1, keepdims=True) - _EPSILON
    first = np.where(candidates, predicted, np.iinfo(np.int64).max).argmin(axis=-1)
    return np.asarray(family.columns.start + first)


def _f1(correct: Integers, predicted: Integers, gold: Integers) -> Floats:
    return score_sums("f1", correct, predicted, gold, "perfect")
