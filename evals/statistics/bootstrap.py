"""Intervals by paired bootstrap over cases (Efron and Tibshirani 1993, chapters 13 and 14), and over seeds.

Cases are drawn with replacement, and a drawn case brings its scores in both runs with it. All statistics see
the same draws. A draw is a row of weights, one weight a case, so the totals of many draws are one product of
the weights with the matrix of cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit

from evals.statistics.case_totals import Floats, Statistic, evaluate

RESAMPLES = 9_999
LEVEL = 0.95
SEED = 42

_CHUNK = 2_000_000
"""Weights at once: 16 MB each of draws, counts and weights."""

_ROUNDING = 1e-9
"""Draws so near to the value are ties with it: processors differ in the last digits of a matrix product."""

Method = Literal["bca", "percentile", "t", "none"]


class Interval(NamedTuple):
    """A value with its confidence interval.

    Attributes:
        method: `bca` (bias-corrected and accelerated); `percentile` where that is not defined, as when no
            resample differs from the value; `t` of a mean over repetitions (`seed_interval`); `none` with
            fewer than two cases or repetitions, where the ends are nan.
    """

    value: float
    low: float
    high: float
    method: Method


class PairedIntervals(NamedTuple):
    """A statistic of both runs, and the second's advantage."""

    first: Interval
    second: Interval
    difference: Interval


Evaluated = Callable[[Floats, float], Floats]
"""Values from sums over cases, shape (..., columns), and their number; shape (values, ...)."""


def intervals_of(matrix: Floats, statistics: Mapping[str, Statistic]) -> dict[str, Interval]:
    """Intervals of one run's statistics, by name; the matrix is as in `paired_bootstrap`."""

    def values(totals: Floats, cases: float) -> Floats:
        return evaluate([*statistics.values()], totals, cases)

    return dict(zip(statistics, _bootstrap(matrix, values, RESAMPLES, LEVEL, SEED), strict=True))


def paired_bootstrap(
    first: Floats,
    second: Floats,
    statistics: Sequence[Statistic],
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = SEED,
) -> list[PairedIntervals]:
    """Intervals of statistics of two runs on the same cases, and of their differences.

    Args:
        first: One row a case, one column for each number that a statistic sums, shape (cases, columns).
        second: The same cases in the same order.
        statistics: What to compute.
        resamples: How many draws of as many cases as there are.
        level: Probability that an interval shall cover, such as 0.95.
        seed: Of the draws; equal seeds give equal intervals.

    Returns:
        One entry a statistic, in their order.
    """
    width = first.shape[1]

    def values(totals: Floats, cases: float) -> Floats:
        """Values of the first run, the second, then the differences."""
        one = evaluate(statistics, totals[..., :width], cases)
        other = evaluate(statistics, totals[..., width:], cases)
        return np.concatenate([one, other, other - one])

    found = _bootstrap(np.hstack([first, second]), values, resamples, level, seed)
    count = len(statistics)
    return [PairedIntervals(*found[place::count]) for place in range(count)]


def _bootstrap(
    matrix: Floats, values_of: Evaluated, resamples: int, level: float, seed: int
) -> list[Interval]:
    cases, totals = len(matrix), matrix.sum(axis=0)
    values = values_of(totals, cases)
    if cases < 2:
        return [Interval(value, np.nan, np.nan, "none") for value in values.tolist()]
    generator = np.random.default_rng(seed)
    draws = [values_of(weights @ matrix, cases) for weights in _weights(cases, resamples, generator)]
    left_out = values_of(totals - matrix, cases - 1)
    each = zip(values, np.concatenate(draws, axis=-1), left_out, strict=True)
    return [_interval(value, drawn, others, level) for value, drawn, others in each]


def interval_fields(intervals: Mapping[str, Interval], cases: int) -> dict[str, object]:
    """Values and, of more than one case, the ends of their intervals, for JSON."""
    ends = {name: [one.low, one.high] for name, one in intervals.items() if cases > 1}
    return {"values": {name: one.value for name, one in intervals.items()}, "intervals": ends}


def seed_interval(values: Sequence[float], bounds: tuple[float, float] = (-np.inf, np.inf)) -> Interval:
    """Mean of one value a seed, with Student's t-interval: mean +- t * s / sqrt(n), n - 1 degrees of freedom.

    It shows how much weights and order matter, not how much the cases do. It is clipped to `bounds`, the
    range of the figure; a single value has no interval.
    """
    mean = float(np.mean(values))
    count = len(values)
    if count < 2:
        return Interval(mean, np.nan, np.nan, "none")
    half = float(stdtrit(count - 1, (1 + LEVEL) / 2) * np.std(values, ddof=1) / np.sqrt(count))
    lowest, highest = bounds
    return Interval(mean, max(mean - half, lowest), min(mean + half, highest), "t")


def _weights(cases: int, resamples: int, generator: np.random.Generator) -> Iterator[Floats]:
    """How often each case is drawn: blocks of rows that together are `resamples` rows."""
    most = max(1, _CHUNK // cases)
    for begin in range(0, resamples, most):
        rows = min(most, resamples - begin)
        drawn = generator.integers(cases, size=(rows, cases))
        drawn += cases * np.arange(rows)[:, None]
        counts: NDArray[np.intp] = np.bincount(drawn.ravel(), minlength=rows * cases)
        yield counts.reshape(rows, cases).astype(np.float64)


def _interval(value: np.float64, drawn: Floats, left_out: Floats, level: float) -> Interval:
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    method: Method = "bca"
    corrected = _bca_tails(value, drawn, left_out, tails)
    if corrected is None:
        corrected, method = tails, "percentile"
    low, high = np.quantile(drawn, corrected).tolist()
    return Interval(float(value), low, high, method)


def _bca_tails(value: np.float64, drawn: Floats, left_out: Floats, tails: Floats) -> Floats | None:
    """Quantiles with bias and acceleration allowed for; None where either is undefined.

    Bias comes from the share of draws below the value, ties by half; acceleration from the jackknife.
    """
    slack = _ROUNDING * max(1.0, abs(float(value)))
    below = (np.count_nonzero(drawn < value - slack) + np.count_nonzero(drawn <= value + slack)) / (
        2 * len(drawn)
    )
    spread = left_out.mean() - left_out
    squares = float((spread**2).sum())
    if not 0 < below < 1 or squares <= 0:
        return None
    bias = ndtri(below)
    acceleration = (spread**3).sum() / (6 * squares**1.5)
    shifted = bias + ndtri(tails)
    below_pole = 1 - acceleration * shifted
    if (below_pole <= 0).any():
        return None
    return np.asarray(ndtr(bias + shifted / below_pole))
