"""Precision, recall, F1 and average precision of ranked examples, with intervals over examples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from evals.statistics.bootstrap import Interval, intervals_of
from evals.statistics.case_totals import PERCENT, CaseStatistic, Mean, Pooled, Ratio
from ranking.measures import PARTS, EmptyRule, average_precision_of_scores, count, scores
from ranking.ranked_rows import RankedRow

EMPTY: EmptyRule = "perfect"
"""As subtask 2 of ArchEHR-QA 2026: nothing selected where nothing is evidence scores 1."""


_COLUMNS = (
    *("correct", "selected", "gold"),
    *PARTS,
    *("average_precision", "has_average_precision"),
)
_AT = {column: place for place, column in enumerate(_COLUMNS)}

_STATISTICS: dict[str, CaseStatistic] = {
    **{f"micro_{part}": Pooled(_AT["correct"], part, EMPTY, PERCENT) for part in PARTS},
    **{f"macro_{part}": Mean(_AT[part]) for part in PARTS},
    "average_precision": Ratio(_AT["average_precision"], _AT["has_average_precision"]),
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
    """A row of `_COLUMNS`."""
    counts = count(set(row.selected), set(row.gold or ()))
    precision = average_precision_of_scores(list(row.scores.values()), labels)
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
    values = intervals_of(matrix, _STATISTICS)
    if not matrix[:, _AT["has_average_precision"]].any():
        del values["average_precision"]
    return values
