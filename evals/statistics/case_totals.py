"""Scores as functions of totals over cases, so that resampling cases is one matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ranking.measures import EmptyRule, Part, ratios, score_sums

Floats = NDArray[np.float64]

PERCENT = 100.0
"""Leaderboards give scores in percent. Measures themselves are 0 to 1."""


class Statistic(Protocol):
    """A score of some cases that needs no more than sums over them."""

    def of(self, totals: Floats, cases: float) -> Floats:
        """Score sums.

        Args:
            totals: Sums over cases of all columns, shape (..., columns).
            cases: How many cases the sums are over.

        Returns:
            Shape (...).
        """


class CaseStatistic(Statistic, Protocol):
    """A statistic that names what it reads, so that runs are compared in the cases that differ there."""

    @property
    def columns(self) -> tuple[int, ...]:
        """Which columns of the matrix of cases it reads."""


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean of a column over cases."""

    column: int

    @property
    def columns(self) -> tuple[int, ...]:
        return (self.column,)

    def of(self, totals: Floats, cases: float) -> Floats:
        return np.asarray(totals[..., self.column] / cases)


@dataclass(frozen=True, slots=True)
class GeometricMean(Mean):
    """Geometric mean over cases of a column that holds logarithms."""

    def of(self, totals: Floats, cases: float) -> Floats:
        return np.asarray(np.exp(Mean.of(self, totals, cases)))


@dataclass(frozen=True, slots=True)
class Ratio:
    """The sum of one column divided by another's; 0 if the divisor is 0."""

    above: int
    below: int

    @property
    def columns(self) -> tuple[int, ...]:
        return (self.above, self.below)

    def of(self, totals: Floats, cases: float) -> Floats:
        return ratios(totals[..., self.above], totals[..., self.below])


@dataclass(frozen=True, slots=True)
class Pooled:
    """Precision, recall or F1 of counts summed over cases (micro average).

    Attributes:
        first: Column of correct items; those of predicted and of gold items follow it.
        empty: What nothing predicted where nothing is wanted scores.
        scale: 1 for a share, `PERCENT` for percent.
    """

    first: int
    part: Part
    empty: EmptyRule
    scale: float = 1.0

    @property
    def columns(self) -> tuple[int, ...]:
        return (self.first, self.first + 1, self.first + 2)

    def of(self, totals: Floats, cases: float) -> Floats:
        correct, predicted, gold = (totals[..., column] for column in self.columns)
        return np.asarray(self.scale * score_sums(self.part, correct, predicted, gold, self.empty))


@dataclass(frozen=True, slots=True)
class MeanOf:
    """Plain mean of several statistics, as overall scores are.

    Attributes:
        scale: Of the mean: 1, or `PERCENT` for percent of parts that are shares.
    """

    parts: tuple[CaseStatistic, ...]
    scale: float = 1.0

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(column for part in self.parts for column in part.columns))

    def of(self, totals: Floats, cases: float) -> Floats:
        return np.asarray(self.scale * np.mean([part.of(totals, cases) for part in self.parts], axis=0))


def evaluate(statistics: Sequence[Statistic], totals: Floats, cases: float) -> Floats:
    """All statistics of the same sums, shape (statistics, ...)."""
    return np.stack([statistic.of(totals, cases) for statistic in statistics])
