"""Randomisation test of a paired difference: what if the two runs' outputs were exchanged at random?

Under the null hypothesis a case's two outputs might as well have come from the other run. Exchanging them,
case by case, gives the differences that chance alone would give (Fisher 1935; for pooled F1: Yeh 2000,
"More accurate tests for the statistical significance of result differences").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from evals.statistics.bootstrap import RESAMPLES, SEED
from evals.statistics.case_totals import CaseStatistic, Floats, evaluate

EXACT_UP_TO = 12
"""With so many cases that differ, or fewer, all exchanges are tried: 4,096 at most."""

_CHUNK = 2_000_000
_ROUNDING = 1e-9


def swap_test(
    first: Floats,
    second: Floats,
    statistics: Sequence[CaseStatistic],
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> list[float]:
    """Two-sided p-values of differences between two runs on the same cases.

    Exact where at most `EXACT_UP_TO` cases differ in what a statistic reads. Otherwise by random exchanges,
    including the observed one: p = (1 + at least as large) / (1 + exchanges).

    Args:
        first: One row a case, one column for each number that a statistic sums, shape (cases, columns).
        second: The same cases in the same order.
        statistics: What to test.
        resamples: Random exchanges.
        seed: Of the exchanges.
    """
    return [
        _exact(first, second, statistic) if len(changed) <= EXACT_UP_TO else p_value
        for statistic, p_value, changed in zip(
            statistics,
            _sampled(first, second, statistics, resamples, np.random.default_rng(seed)),
            (_changed(first, second, statistic) for statistic in statistics),
            strict=True,
        )
    ]


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values of several tests, corrected so that any error among them has the probability of one test's.

    The smallest is multiplied by the number of tests, the next by one less, and so on, at most 1; none falls
    below one that was smaller before (Holm 1979). They stay in their order.
    """
    corrected = [0.0] * len(p_values)
    least = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = least
    return corrected


def _changed(first: Floats, second: Floats, statistic: CaseStatistic) -> Floats:
    """Effect of an exchange on the first run's totals: one row for each case with an effect."""
    columns = list(statistic.columns)
    change = np.zeros_like(first)
    change[:, columns] = second[:, columns] - first[:, columns]
    return np.asarray(change[change.any(axis=1)])


def _exact(first: Floats, second: Floats, statistic: CaseStatistic) -> float:
    change = _changed(first, second, statistic)
    numbers = np.arange(2 ** len(change))[:, None]
    exchanged = (numbers >> np.arange(len(change))) & 1
    differences = _differences(first, second, [statistic], exchanged.astype(np.float64) @ change)
    return float(_as_large(differences, differences[:, :1]).mean())


def _sampled(
    first: Floats,
    second: Floats,
    statistics: Sequence[CaseStatistic],
    resamples: int,
    generator: np.random.Generator,
) -> list[float]:
    change = second - first
    change = change[change.any(axis=1)]
    observed = _differences(first, second, statistics, np.zeros((1, first.shape[1])))
    as_large = np.ones(len(statistics))
    for exchanged in _coins(len(change), resamples, generator):
        differences = _differences(first, second, statistics, exchanged @ change)
        as_large += _as_large(differences, observed).sum(axis=1)
    return [float(count) / (1 + resamples) for count in as_large]


def _differences(first: Floats, second: Floats, statistics: Sequence[CaseStatistic], moved: Floats) -> Floats:
    """Differences after exchanges that move totals from one run to the other: (statistics, exchanges)."""
    cases = len(first)
    one = evaluate(statistics, first.sum(axis=0) + moved, cases)
    other = evaluate(statistics, second.sum(axis=0) - moved, cases)
    return np.asarray(other - one)


def _as_large(differences: Floats, observed: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    # Equal differences that were summed in another order must count as equal.
    return np.asarray(np.abs(differences) >= np.abs(observed) - _ROUNDING)


def _coins(cases: int, resamples: int, generator: np.random.Generator) -> Iterator[Floats]:
    """Blocks of rows of zeros and ones that together are `resamples` rows, shape (rows, cases)."""
    width = (cases + 7) // 8
    most = max(1, _CHUNK // max(1, cases))
    for begin in range(0, resamples, most):
        rows = min(most, resamples - begin)
        drawn = np.frombuffer(generator.bytes(rows * width), np.uint8).reshape(rows, width)
        yield np.unpackbits(drawn, axis=1, count=cases).astype(np.float64)
