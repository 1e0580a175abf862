"""Precision, recall, F1 and average precision of ranked examples with intervals; curves of trainings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from evals.pages.plots import DASHES, DOWN, INK, MUTED, UP, drawing, note_at, standalone
from evals.statistics.bootstrap import Interval, intervals_of
from evals.statistics.case_totals import PERCENT, CaseStatistic, Mean, Pooled, Ratio
from ranking.measures import PARTS, EmptyRule, average_precision_of_scores, count, scores
from ranking.rank_file import RankedRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Item = TypeVar("Item")

EMPTY: EmptyRule = "perfect"
"""As subtask 2 of ArchEHR-QA 2026: nothing selected where nothing is evidence scores 1."""

_COLUMNS = (
    *("correct", "selected", "gold"),
    *PARTS,
    *("average_precision", "has_average_precision"),
)
COLUMNS = len(_COLUMNS)
_AT = {column: place for place, column in enumerate(_COLUMNS)}

STATISTICS: dict[str, CaseStatistic] = {
    **{f"micro_{part}": Pooled(_AT["correct"], part, EMPTY, PERCENT) for part in PARTS},
    **{f"macro_{part}": Mean(_AT[part]) for part in PARTS},
    "average_precision": Ratio(_AT["average_precision"], _AT["has_average_precision"]),
}


@dataclass(frozen=True, slots=True)
class RankingScores:
    """Scores of all rows.

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
            chosen, gold = set(row.selected), set(row.gold or ())
            table.append(example_numbers(chosen, gold, list(row.scores.values()), labels))
    return RankingScores(
        examples, len(table), weak, _values(table), selected, sentences, cut_sentences, cut_queries
    )


def example_numbers(
    selected: AbstractSet[Item], gold: AbstractSet[Item], logits: Sequence[float], labels: Sequence[bool]
) -> list[float]:
    """A row of the matrix that `STATISTICS` read, shape (`COLUMNS`,).

    `selected` are the sentences that a cut-off selects, `gold` those that are evidence. Logits and labels,
    whether a sentence is evidence, have shape (sentences,).
    """
    counts = count(selected, gold)
    precision = average_precision_of_scores(logits, labels)
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
    values = intervals_of(matrix, STATISTICS)
    if not matrix[:, _AT["has_average_precision"]].any():
        del values["average_precision"]
    return values


Points = Sequence[tuple[float, float]]
"""Steps and values."""

_SMOOTHED_STEPS = 40


def curve_svg(points: Sequence[Mapping[str, Any]]) -> str:
    """One training, the lines of its `curve.jsonl`, as a standalone SVG: loss, and held-out figures."""
    with drawing("curve", 7.2, 3.6) as made:
        axes = made.axes
        start = 0
        for phase in ("pretrain", "train"):
            of_phase = [
                {**point, "step": start + point["step"]} for point in points if point["phase"] == phase
            ]
            if not of_phase:
                continue
            _plot_losses(axes, [(point["step"], point["loss"]) for point in of_phase if "loss" in point])
            if start:
                axes.axvline(start, color=MUTED, linewidth=1, linestyle=DASHES)
            if any("micro_f1" in point for point in of_phase):
                _plot_figures(axes, of_phase)
            start = max(point["step"] for point in of_phase)
        axes.set_xlabel("step (documents)")
        axes.set_ylabel("training loss, running mean", color=MUTED)
        axes.set_ylim(bottom=0)
    return standalone(made.svg)


def _plot_figures(axes: Axes, points: Sequence[Mapping[str, Any]]) -> None:
    right = axes.twinx()
    right.patch.set_visible(False)
    right.spines["right"].set_visible(True)
    right.set_ylim(0, 1)
    right.set_ylabel("held out", color=INK)
    for name, label, colour in (
        ("average_precision", "average precision", UP),
        ("micro_f1", "micro F1", DOWN),
    ):
        values = [(point["step"], point[name]) for point in points if "micro_f1" in point]
        right.plot(*_split(values), "o-", color=colour, markersize=5, linewidth=1.6)
        note_at(right, label, values[-1], (-6, 6), ha="right", color=colour)


def _plot_losses(axes: Axes, losses: Points) -> None:
    """Means of the last steps: a step is one document, and documents differ."""
    smoothed = [
        (
            step,
            sum(loss for _, loss in losses[max(0, end - _SMOOTHED_STEPS) : end]) / min(end, _SMOOTHED_STEPS),
        )
        for end, (step, _) in enumerate(losses, 1)
    ]
    axes.plot(*_split(smoothed), color=MUTED, linewidth=1.2)


def _split(points: Points) -> tuple[list[float], list[float]]:
    return [point[0] for point in points], [point[1] for point in points]
