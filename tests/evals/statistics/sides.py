"""Made-up scores of two runs on the same cases."""

from __future__ import annotations

import numpy as np

from evals.statistics.case_totals import PERCENT, CaseStatistic, Floats, Mean, MeanOf, Pooled

STATISTICS: tuple[CaseStatistic, ...] = (
    Pooled(0, "precision", "perfect", PERCENT),
    Pooled(0, "recall", "zero", PERCENT),
    Pooled(0, "f1", "perfect", PERCENT),
    Mean(3),
    MeanOf((Pooled(0, "f1", "zero", PERCENT), Mean(3))),
)


def side(generator: np.random.Generator, cases: int, gold: Floats | None = None) -> Floats:
    """Columns correct, predicted, gold, and a text metric."""
    wanted = generator.integers(0, 6, cases) if gold is None else gold
    predicted = generator.integers(0, 6, cases)
    correct = np.minimum(np.minimum(wanted, predicted), generator.integers(0, 6, cases))
    return np.column_stack([correct, predicted, wanted, 100 * generator.random(cases)]).astype(np.float64)


def two_sides(cases: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Of one gold."""
    generator = np.random.default_rng(seed)
    first = side(generator, cases)
    return first, side(generator, cases, first[:, 2])
