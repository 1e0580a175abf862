"""Precision, recall, F1 and average precision of ranked examples, with intervals over examples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from evals.scoring.counts import EmptyRule, count, scores
from evals.statistics.bootstrap import Interval, paired_bootstrap
from evals.statistics.case_totals import PERCENT, CaseStatistic, Floats, Mean, Part, Pooled
from ranking.ranked_rows import RankedRow
from ranking.scoring import average_precision

_PARTS: tuple[Part, ...] = ("precision", "recall", "f1")
EMPTY: EmptyRule = "perfect"
"""As subtask 2 of ArchEHR-QA 2026: nothing selected where nothing is evidence scores 1."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """The sum of one column over that of another."""

    above: int
    below: int

    @property
    def columns(self) -> tuple[int, ...]:
        """Both."""
        return (self.above, self.below)

    def of(self, totals: Floats, cases: float) -> Floats:
        """0 where there is nothing to divide by."""
        above, below = totals[..., self.above], totals[..., self.below]
        return np.asarray(np.divide(above, below, out=np.zeros_like(below), where=below > 0))


_STATISTICS: dict[str, CaseStatistic] = {
    **{f"micro_{part}": Pooled(0, part, EMPTY) for part in _PARTS},
    **{f"macro_{part}": Mean(3 + place) for place, part in enumerate(_PARTS)},
    "average_precision": Ratio(6, 7),
}


@dataclass(frozen=True, slots=True)
class RankingScores:
    """Of all rows.

    Attributes:
        examples: Ranked.
        scored: With labels of people.
        weak: With labels of a model, which are never scored against.
        values: 0 to 100, by name, with 95 % intervals by bootstrap over examples; empty where nothing is
            scored. `average_precision` is the mean over the examples that have evidence.
        selected: Sentences, of all.
        sentences: Of all examples.
        cut_sentences: Sentences of which only the beginning was read.
        cut_queries: Queries of which only the beginning was read.
    """

    examples: int
    scored: int
    weak: int
    values: dict[str, Interval]
    selected: int
    sentences: int
    cut_sentences: int
    cut_queries: int


def score_rows(rows: Iterable[RankedRow]) -> RankingScores:
    """Score rows, holding eight numbers of each."""
    table: list[list[float]] = []
    examples = weak = selected = sentences = cut_sentences = cut_queries = 0
    for row in rows:
        examples += 1
        selected += len(row.selected)
        sentences += len(row.scores)
        cut_sentences += len(row.cut_sentences)
        cut_queries += row.query_cut
        labels = row.labels
        if labels is None:
            continue
        if row.weak:
            weak += 1
        else:
            table.append(_numbers(row, labels))
    return RankingScores(
        examples, len(table), weak, _values(table), selected, sentences, cut_sentences, cut_queries
    )


def _numbers(row: RankedRow, labels: list[bool]) -> list[float]:
    """Correct, selected, gold; precision, recall, F1; average precision, and 1 where there is one."""
    counts = count(set(row.selected), set(row.gold or ()))
    precision = average_precision(list(row.scores.values()), labels)
    return [
        *counts,
        *(PERCENT * value for value in scores(counts, EMPTY)),
        PERCENT * (precision or 0.0),
        float(precision is not None),
    ]


def _values(table: list[list[float]]) -> dict[str, Interval]:
    if not table:
        return {}
    matrix = np.asarray(table, dtype=np.float64)
    found = paired_bootstrap(matrix, matrix, list(_STATISTICS.values()))
    values = {name: its.first for name, its in zip(_STATISTICS, found, strict=True)}
    if not matrix[:, -1].any():
        del values["average_precision"]
    return values
