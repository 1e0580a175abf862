"""Scores as functions of totals over cases, so that resampling cases is one matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from evals.scoring.counts import EmptyRule

Floats = NDArray[np.float64]
Part = Literal["precision", "recall", "f1"]

PERCENT = 100.0
"""Scores of pooled counts are given as leaderboards have them."""


class CaseStatistic(Protocol):
    """A score of some cases that needs no more than sums over them."""

    @property
    def columns(self) -> tuple[int, ...]:
        """Which columns of the matrix of cases it reads."""

    def of(self, totals: Floats, cases: float) -> Floats:
        """Score sums.

        Args:
            totals: Sums over cases of all columns, shape (..., columns).
            cases: How many cases the sums are over.

        Returns:
            Shape (...).
        """


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean of a column over cases."""

    column: int

    @property
    def columns(self) -> tuple[int, ...]:
        """The one column."""
        return (self.column,)

    def of(self, totals: Floats, cases: float) -> Floats:
        """The mean."""
        return np.asarray(totals[..., self.column] / cases)


@dataclass(frozen=True, slots=True)
class Pooled:
    """Precision, recall or F1 of counts summed over cases (micro average), 0 to 100.

    Attributes:
        first: Column of correct items; those of predicted and of gold items follow it.
        empty: What nothing predicted where nothing is wanted scores.
    """

    first: int
    part: Part
    empty: EmptyRule

    @property
    def columns(self) -> tuple[int, ...]:
        """Correct, predicted, gold."""
        return (self.first, self.first + 1, self.first + 2)

    def of(self, totals: Floats, cases: float) -> Floats:
        """A denominator of 0 gives 0, or 100 by the rule for nothing at all."""
        correct, predicted, gold = (totals[..., column] for column in self.columns)
        # F1 = 2PR/(P+R) is twice the correct over all that is predicted and all that is wanted.
        above, below = {
            "precision": (correct, predicted),
            "recall": (correct, gold),
            "f1": (2 * correct, predicted + gold),
        }[self.part]
        value = np.divide(above, below, out=np.zeros_like(below), where=below > 0)
        if self.empty == "perfect":
            value = np.where(predicted + gold == 0, 1.0, value)
        return np.asarray(PERCENT * value)


@dataclass(frozen=True, slots=True)
class MeanOf:
    """Plain mean of several statistics, as overall scores are."""

    parts: tuple[CaseStatistic, ...]

    @property
    def columns(self) -> tuple[int, ...]:
        """Those of all parts."""
        return tuple(dict.fromkeys(column for part in self.parts for column in part.columns))

    def of(self, totals: Floats, cases: float) -> Floats:
        """The mean of the parts."""
        return np.asarray(np.mean([part.of(totals, cases) for part in self.parts], axis=0))


@dataclass(frozen=True, slots=True)
class Shifted:
    """A statistic whose columns stand further right, beside those of others."""

    statistic: CaseStatistic
    offset: int

    @property
    def columns(self) -> tuple[int, ...]:
        """Where its columns stand."""
        return tuple(column + self.offset for column in self.statistic.columns)

    def of(self, totals: Floats, cases: float) -> Floats:
        """The statistic, of its own columns."""
        return self.statistic.of(totals[..., self.offset :], cases)


def evaluate(statistics: Sequence[CaseStatistic], totals: Floats, cases: float) -> Floats:
    """All statistics of the same sums, shape (statistics, ...)."""
    return np.stack([statistic.of(totals, cases) for statistic in statistics])
