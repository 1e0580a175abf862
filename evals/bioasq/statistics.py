"""BioASQ's scores that are no plain mean over questions, 0 to 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evals.statistics.case_totals import PERCENT, CaseStatistic, Floats


@dataclass(frozen=True, slots=True)
class GeometricMean:
    """Geometric mean of a column that holds logarithms."""

    column: int

    @property
    def columns(self) -> tuple[int, ...]:
        """The one column."""
        return (self.column,)

    def of(self, totals: Floats, cases: float) -> Floats:
        """The exponential of the mean."""
        return np.asarray(np.exp(totals[..., self.column] / cases))


@dataclass(frozen=True, slots=True)
class AsShare:
    """A statistic of 0 to 100 as 0 to 1."""

    statistic: CaseStatistic

    @property
    def columns(self) -> tuple[int, ...]:
        """Those of the statistic."""
        return self.statistic.columns

    def of(self, totals: Floats, cases: float) -> Floats:
        """The share."""
        return np.asarray(self.statistic.of(totals, cases) / PERCENT)


@dataclass(frozen=True, slots=True)
class F1OfOne:
    """F1 of one answer: columns of right, given and wanted in a row from `first`."""

    first: int

    @property
    def columns(self) -> tuple[int, ...]:
        """The three."""
        return (self.first, self.first + 1, self.first + 2)

    def of(self, totals: Floats, cases: float) -> Floats:
        """0 where it is neither given nor wanted."""
        right, given, wanted = (totals[..., column] for column in self.columns)
        both = given + wanted
        return np.asarray(np.divide(2 * right, both, out=np.zeros_like(both), where=both > 0))
