"""Agreement of raters beyond chance, as functions of sums over cases, so that their bootstrap is one product.

Cohen's kappa (1960) of two raters, Fleiss' kappa (1971) of as many raters for every item, and Krippendorff's
alpha (2004, chapter 11) for nominal labels, which takes items with any number of raters.

Where all labels are alike, chance explains the agreement and nothing is defined: 0 then, as nothing shows
more agreement than chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evals.statistics.case_totals import Floats


@dataclass(frozen=True, slots=True)
class CohenKappa:
    """Agreement of two raters on so many labels: the columns are the table of their pairs, row by row."""

    labels: int

    def row(self, items: Sequence[Sequence[int]]) -> Floats:
        """The sums of a case, from the labels of both raters for each item, as numbers from 0."""
        table = np.zeros((self.labels, self.labels))
        for first, second in items:
            table[first, second] += 1
        return table.ravel()

    def of(self, totals: Floats, cases: float) -> Floats:
        table = totals.reshape(*totals.shape[:-1], self.labels, self.labels)
        items = table.sum(axis=(-1, -2))
        equal = np.trace(table, axis1=-2, axis2=-1)
        # Counts, not shares: with shares, rounding would hide that agreement is certain.
        by_chance = (table.sum(axis=-1) * table.sum(axis=-2)).sum(axis=-1)
        return _divided(items * equal - by_chance, items**2 - by_chance)


@dataclass(frozen=True, slots=True)
class FleissKappa:
    """Agreement on items with equally many raters: columns: agreeing pairs, then each label's frequency.

    Attributes:
        labels: Number of different labels.
        raters: Of each item, at least two; they need not be the same for every item.
    """

    labels: int
    raters: int

    def row(self, items: Sequence[Sequence[int]]) -> Floats:
        """The sums of a case, from the labels of each item, as numbers from 0."""
        counts = _counts(items, self.labels)
        return np.concatenate([[(counts * (counts - 1)).sum()], counts.sum(axis=0)])

    def of(self, totals: Floats, cases: float) -> Floats:
        agreeing, counts = totals[..., 0], totals[..., 1:]
        ratings = counts.sum(axis=-1)
        by_chance = (counts**2).sum(axis=-1)
        return _divided(
            ratings * agreeing - (self.raters - 1) * by_chance, (self.raters - 1) * (ratings**2 - by_chance)
        )


@dataclass(frozen=True, slots=True)
class KrippendorffAlpha:
    """Agreement on items with two raters or more: columns: agreeing coincidences, then label counts."""

    labels: int

    def row(self, items: Sequence[Sequence[int]]) -> Floats:
        """The sums of a case, from the labels of each item; items with less than two do not count."""
        counts = _counts([labels for labels in items if len(labels) > 1], self.labels)
        raters = counts.sum(axis=1, keepdims=True)
        return np.concatenate([[(counts * (counts - 1) / (raters - 1)).sum()], counts.sum(axis=0)])

    def of(self, totals: Floats, cases: float) -> Floats:
        agreeing, counts = totals[..., 0], totals[..., 1:]
        ratings = counts.sum(axis=-1)
        expected = ratings**2 - (counts**2).sum(axis=-1)
        observed = (ratings - 1) * (ratings - agreeing)
        return _divided(expected - observed, expected)


def _counts(items: Sequence[Sequence[int]], labels: int) -> Floats:
    """How often each item has each label, shape (items, labels)."""
    found = np.zeros((len(items), labels))
    for number, given in enumerate(items):
        for label in given:
            found[number, label] += 1
    return found


def _divided(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.zeros_like(np.asarray(above, dtype=np.float64)), where=below > 0)
