"""The tables of rankers: a mean over seeds with its interval, and paired tests over cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

import numpy as np

from evals.experiments.definition import RankerTable
from evals.experiments.rankers import HELD_OUT, NOISY, TUNING, Examples, RankerPlan, SetScores
from evals.experiments.tables import PART_TITLES, Compared, PaperTable, TableRow, unit_of
from evals.rankings.scores import COLUMNS, STATISTICS, example_numbers
from evals.statistics.bootstrap import Interval, seed_interval
from evals.statistics.case_totals import PERCENT, CaseStatistic, Floats, Pooled
from evals.statistics.sign_flip import swap_test
from ranking.cutoffs import Cutoff, FixedThreshold, ScoreGap, TopK, select
from ranking.measures import PARTS, count_characters
from ranking.tuning import RuleKind, ScoredCase, best_cutoff, tune


@dataclass(frozen=True, slots=True)
class Tuned:
    """A rule whose parameters are those that give the best micro F1 on the tuning part.

    Attributes:
        kind: Kind of rule; `best` is the one that does best there when each case is left out in turn.
        fallback: Whether a threshold that no sentence reaches takes the best one.
    """

    kind: RuleKind | Literal["best"]
    fallback: bool = True


Rule = Cutoff | Tuned


class Measured(NamedTuple):
    """A column: a statistic of all cases of some sets together."""

    title: str
    statistic: str
    sets: tuple[str, ...] = (HELD_OUT,)


class Line(NamedTuple):
    """A row: a cell with a rule."""

    label: str
    cell: str
    rule: Rule


class Block(NamedTuple):
    """A table, or a part of one. Rows are compared with the first in the headline column."""

    columns: Sequence[Measured]
    lines: Sequence[Line]
    headline: str
    part: str = ""


_PAPER = FixedThreshold(tau=0.4)
_ONE_THRESHOLD = Tuned("threshold", fallback=False)
"""Abridge's one global threshold; a query may have no evidence."""

_MICRO = [Measured(title, f"micro_{part}") for title, part in PART_TITLES.items()]
_BY_AVERAGE = [
    Measured(f"{average} {title}", f"{average.lower()}_{part}")
    for average in ("Macro", "Micro")
    for title, part in PART_TITLES.items()
]
_OBJECTIVES: Mapping[str, Rule] = {
    "fixed threshold 0.4, as in the paper": _PAPER,
    "threshold tuned on the tuning part": Tuned("threshold"),
    "fixed top-k, k tuned on the tuning part": Tuned("top_k"),
    "rule and parameters chosen on the tuning part": Tuned("best"),
}
_CUTOFFS: Mapping[str, Rule] = {
    "Fixed Threshold 0.4": _PAPER,
    "Fixed Threshold, tuned": Tuned("threshold"),
    "Score-Gap Selection": ScoreGap(),
    "Score-Gap Selection, limit tuned": Tuned("gap"),
    "Adaptive Soft Dynamic-k, tuned": Tuned("adaptive"),
    "Top-k, tuned": Tuned("top_k"),
}
_STATISTICS: Mapping[str, CaseStatistic] = {
    **STATISTICS,
    **{f"character_{part}": Pooled(COLUMNS, part, "zero", PERCENT) for part in PARTS},
}


def make_ranker_tables(
    table: RankerTable, names: Sequence[str], plan: RankerPlan, scored: Mapping[str, Mapping[int, SetScores]]
) -> list[PaperTable]:
    """Make a table, or one for each of its parts, of the rankers that are finished.

    Names are cells, in the order of the rows. Scores are by cell and seed; a baseline has the one seed 0.
    """
    names = [name for name in names if name in scored]
    if not names:
        return []
    by_cell = {one.name: one.baseline for one in plan.rankers}

    @cache
    def cutoff(name: str, seed: int, rule: Rule) -> Cutoff:
        return _cutoff(by_cell[name], rule, plan.sets[TUNING], scored[name][seed])

    @cache
    def matrix(name: str, seed: int, rule: Rule, sets: tuple[str, ...]) -> Floats:
        chosen = cutoff(name, seed, rule)
        return np.concatenate([_rows(plan.sets[one], scored[name][seed][one], chosen) for one in sets])

    def row(block: Block, line: Line) -> TableRow:
        seeds = scored[line.cell]
        values = []
        for column in block.columns:
            of_seeds = [matrix(line.cell, seed, line.rule, column.sets) for seed in seeds]
            statistic = _STATISTICS[column.statistic]
            found = [float(statistic.of(rows.sum(axis=0), len(rows))) for rows in of_seeds]
            values.append(seed_interval(found, bounds=(0, 100)))
        return TableRow(line.label, tuple(values), compared(block, line))

    def compared(block: Block, line: Line) -> Compared | None:
        """Comparison by counts summed over shared seeds; a baseline is the same for every seed."""
        first = block.lines[0]
        pairs = _common_seeds([*scored[first.cell]], [*scored[line.cell]])
        if line == first or not pairs:
            return None
        column = next(one for one in block.columns if one.title == block.headline)
        groups = [one.group for name in column.sets for one in plan.sets[name]]
        before, after = (
            _by_group(
                np.sum([matrix(one.cell, pair[side], one.rule, column.sets) for pair in pairs], axis=0),
                groups,
            )
            for side, one in enumerate((first, line))
        )
        statistic = _STATISTICS[column.statistic]
        values = [float(statistic.of(side.sum(axis=0), len(side))) for side in (before, after)]
        (p_value,) = swap_test(before, after, [statistic])
        return Compared(Interval(values[1] - values[0], np.nan, np.nan, "none"), p_value)

    seeds = ", ".join(map(str, sorted({one.seed for one in plan.rankers} - {0})))
    return [
        PaperTable(
            table=table,
            unit=unit_of(table),
            columns=tuple(column.title for column in block.columns),
            rows=tuple(row(block, line) for line in block.lines),
            cases=sum(len(plan.sets[name]) for name in block.columns[-1].sets),
            headline=block.headline,
            not_computed={},
            part=block.part,
            note=f"Means over seeds {seeds}; brackets: 95 % t-intervals over seeds, which change weights and"
            f" order. Difference: to the first row, in the column {block.headline}, of counts summed over"
            " seeds; p: exchange of the two rows' outputs group by group.",
        )
        for block in _blocks(table, names, plan)
    ]


def _blocks(table: RankerTable, names: Sequence[str], plan: RankerPlan) -> list[Block]:
    def lines(rule: Rule) -> list[Line]:
        return [Line(name, name, rule) for name in names]

    match table:
        case "1":
            blocks = [Block(_BY_AVERAGE, lines(rule), "Micro F1", part) for part, rule in _OBJECTIVES.items()]
            order = Measured("Average precision", "average_precision")
            return [*blocks, Block([order], lines(_PAPER), order.title, "order alone, no cut-off")]
        case "2":
            rules = {name: [Line(label, name, rule) for label, rule in _CUTOFFS.items()] for name in names}
            return [Block(_MICRO, rows, "F1", name) for name, rows in rules.items()]
        case "abridge-2" | "abridge-9":
            return [Block(_MICRO, lines(_ONE_THRESHOLD), "F1")]
        case "abridge-3":
            domains = [name for name in plan.sets if name not in (TUNING, HELD_OUT, NOISY)]
            columns = [
                Measured("trained on", "micro_f1"),
                *(Measured(name, "micro_f1", (name,)) for name in domains),
                Measured("all others", "micro_f1", tuple(domains)),
            ]
            return [Block(columns, lines(_ONE_THRESHOLD), "all others")] if domains else []
        case "abridge-5":
            columns = [
                Measured(f"{kind} {column.title}", column.statistic.replace("micro", "character"), (name,))
                for kind, name in (("Clean", HELD_OUT), ("Noisy", NOISY))
                for column in _MICRO
            ]
            return [Block(columns, lines(_ONE_THRESHOLD), "Noisy F1")]


def _cutoff(baseline: str | None, rule: Rule, tuning: Examples, scores: SetScores) -> Cutoff:
    """The rule, tuned if requested; BM25 scores are not probabilities, so it takes a number."""
    if baseline == "bm25":
        rule = Tuned("top_k") if rule in (Tuned("top_k"), Tuned("best")) else TopK(k=3)
    if not isinstance(rule, Tuned):
        return rule
    cases = [ScoredCase(logits, one.labels or ()) for one, logits in zip(tuning, scores[TUNING], strict=True)]
    if rule.kind == "best":
        return best_cutoff(cases, fallback=rule.fallback).cutoff
    return tune(rule.kind, cases, fallback=rule.fallback).cutoff


def _rows(examples: Examples, scores: Sequence[np.ndarray], cutoff: Cutoff) -> Floats:
    """Counts of each example: sentences, then characters; shape (examples, columns)."""
    rows = []
    for one, logits in zip(examples, scores, strict=True):
        labels = one.labels or ()
        chosen = set(select(cutoff, logits))
        gold = {place for place, label in enumerate(labels) if label}
        numbers = example_numbers(chosen, gold, logits.tolist(), labels)
        rows.append([*numbers, *count_characters(chosen, labels, [*map(len, one.sentences)])])
    return np.asarray(rows, dtype=np.float64)


def _common_seeds(first: Sequence[int], other: Sequence[int]) -> list[tuple[int, int]]:
    if first == [0] or other == [0]:
        return [(one, two) for one in first for two in other]
    return [(seed, seed) for seed in first if seed in other]


def _by_group(rows: Floats, groups: Sequence[str]) -> Floats:
    """Sums over the cases of a group, shape (groups, columns), groups in order of their first case."""
    places = {group: place for place, group in enumerate(dict.fromkeys(groups))}
    summed = np.zeros((len(places), rows.shape[1]))
    np.add.at(summed, [places[group] for group in groups], rows)
    return summed
