"""One ranking cut by many rules: the rows of heiDS's table 1."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from evals.pages.tables import POINTS, Column, Table, columns, interval_object
from evals.rankings.scores import RankingScores, score_rows
from ranking.cutoffs import (
    Autocut,
    AutocutStar,
    Cutoff,
    Elbow,
    Surprise,
    SurpriseClean,
    TopK,
    cutoff_text,
    select,
)
from ranking.rank_file import RankedRow

_Truncation = Autocut | AutocutStar | Elbow | Surprise | SurpriseClean
_TRUNCATIONS: tuple[type[_Truncation], ...] = (Autocut, AutocutStar, Elbow, Surprise, SurpriseClean)
_FLOOR = 3

RULES: tuple[Cutoff, ...] = (
    *(TopK(k=size) for size in (3, 10, 15, 20, 54)),
    *(rule() for rule in _TRUNCATIONS),
    *(rule(minimum=_FLOOR) for rule in _TRUNCATIONS),
)
"""Fixed sizes, truncations, and truncations that keep at least three."""

_COLUMNS = {
    "P": "micro_precision",
    "R": "micro_recall",
    "F1": "micro_f1",
    "macro F1": "macro_f1",
    "AP": "average_precision",
}

Scored = Sequence[tuple[Cutoff, RankingScores]]


def score_by_cutoff(rows: Iterable[RankedRow]) -> Scored:
    """Cut the scores of the same rankings by every rule and score each selection."""
    kept = list(rows)

    def cut(rule: Cutoff) -> Iterator[RankedRow]:
        for row in kept:
            ids = list(row.scores)
            yield replace(row, selected=tuple(ids[place] for place in select(rule, [*row.scores.values()])))

    return [(rule, score_rows(cut(rule))) for rule in RULES]


def cutoff_table(scored: Scored) -> Table:
    """The main values, and F1 with its interval."""
    heads = columns("cut-off", "selected", *_COLUMNS)
    place = 3 + list(_COLUMNS).index("F1")
    heads.insert(place, Column("95 %", "text"))
    rows = []
    for rule, its in scored:
        floor = f", min {_FLOOR}" if getattr(rule, "minimum", 1) != 1 else ""
        name = cutoff_text(rule) if isinstance(rule, TopK) else f"{rule.rule}{floor}"
        cells = [name, f"{its.selected / its.examples:.1f}"]
        cells += [POINTS.cell(its.values.get(score)).text for score in _COLUMNS.values()]
        cells.insert(place, POINTS.bracket(its.values.get("micro_f1")))
        rows.append(cells)
    return Table(heads, rows)


def cutoffs_as_json(scored: Scored) -> list[dict[str, Any]]:
    """An object for each rule; intervals are null where there is none."""
    return [
        {
            "cutoff": cutoff_text(rule),
            "selected": scores.selected,
            "scores": {name: interval_object(its) for name, its in scores.values.items()},
        }
        for rule, scores in scored
    ]
