"""Tables from stored scores: a mean over seeds with its interval, and paired tests over cases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evals.experiments.tables import Unit
from evals.statistics.bootstrap import Interval, seed_interval
from evals.statistics.case_totals import Floats
from evals.statistics.sign_flip import swap_test
from evals.studies.definition import Baseline, Study, TableName
from evals.studies.figures import Cases, Figures, Scored
from evals.studies.layouts import (
    TITLES,
    UNITS,
    BlockLayout,
    ColumnLayout,
    RowLayout,
    Rule,
    cutoff_text,
    layout,
    rule_of,
)
from evals.studies.measures import STATISTICS, by_group

REFERENCES: tuple[Baseline, ...] = ("bm25", "logistic")
"""Baselines that every row is compared with, where the study has them."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A row against another in the block's headline.

    Attributes:
        difference: In points of 100, of counts summed over the seeds that both have. It is not quite that of
            the means over seeds.
        p_value: Of this difference, two-sided: exchange of the two rows' outputs group by group.
    """

    against: str
    difference: float
    p_value: float


@dataclass(frozen=True, slots=True)
class StudyRow:
    """A row.

    Attributes:
        values: One a column, in points of 100.
        seeds: How many are finished.
        cutoffs: What selected in the headline's column, one a seed.
    """

    label: str
    values: tuple[Interval, ...]
    seeds: int
    cutoffs: tuple[str, ...]
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Rows and columns.

    Attributes:
        cases: Of the headline's column.
        groups: Of these.
    """

    title: str
    columns: tuple[str, ...]
    headline: str
    rows: tuple[StudyRow, ...]
    cases: int
    groups: int


@dataclass(frozen=True, slots=True)
class StudyTable:
    """A table of a paper.

    Attributes:
        caption: What a reader must know of it.
        unfinished: Labels of rows that no seed is finished of.
    """

    table: TableName
    title: str
    unit: Unit
    caption: str
    blocks: tuple[Block, ...]
    unfinished: tuple[str, ...]


def make_table(
    table: TableName, study: Study, cases: Cases, scored: Scored, caption: str = ""
) -> StudyTable | None:
    """Make a table of what is finished; None where nothing is."""
    figures = Figures(cases, scored)
    sheets = [_Sheet(one, study, figures) for one in layout(table, study)]
    blocks = tuple(block for sheet in sheets if (block := sheet.block()) is not None)
    unfinished = dict.fromkeys(label for sheet in sheets for label in sheet.unfinished)
    if not blocks:
        return None
    return StudyTable(table, TITLES[table], UNITS[table], caption, blocks, tuple(unfinished))


class _Sheet:
    """A block in the making; matrices are made once."""

    def __init__(self, of: BlockLayout, study: Study, figures: Figures) -> None:
        self._of = of
        self._study = study
        self._figures = figures
        self._sets = tuple(dict.fromkeys(name for column in of.columns for name in column.sets))
        self._headline = next(column for column in of.columns if column.title == of.headline)
        self.lines = [line for line in of.lines if self._seeds(line)]
        self.unfinished = [line.label for line in of.lines if line not in self.lines]

    def block(self) -> Block | None:
        """The block; None without rows."""
        if not self.lines:
            return None
        groups = self._figures.groups(self._headline.sets)
        return Block(
            title=self._of.title,
            columns=tuple(column.title for column in self._of.columns),
            headline=self._of.headline,
            rows=tuple(self._row(line) for line in self.lines),
            cases=len(groups),
            groups=len(set(groups)),
        )

    def _row(self, line: RowLayout) -> StudyRow:
        seeds = self._seeds(line)
        values = [
            seed_interval([self._value(line, column, seed) for seed in seeds], bounds=(0, 100))
            for column in self._of.columns
        ]
        rule = self._rule(line, self._headline)
        cutoffs = [cutoff_text(self._figures.cutoff(line.row, seed, rule)) for seed in seeds]
        comparisons = [
            self._compare(line, other) for other in self._references(line) if self._common(line, other)
        ]
        return StudyRow(line.label, tuple(values), len(seeds), tuple(cutoffs), tuple(comparisons))

    def _references(self, line: RowLayout) -> list[RowLayout]:
        """The first row, and the named baselines, in the block or not, cut by the rule of the line."""
        baselines = {self._study.rows[name].baseline: name for name in self._study.rows}
        others = {
            baseline: RowLayout(self._study.rows[name].label or name, name, line.rule)
            for baseline in REFERENCES
            if (name := baselines.get(baseline)) is not None
        }
        found = [self.lines[0], *(other for other in others.values() if other != self.lines[0])]
        return [other for other in found if other != line]

    def _compare(self, line: RowLayout, other: RowLayout) -> Comparison:
        pairs = self._common(line, other)
        column = self._headline
        statistic = STATISTICS[column.measure]
        groups = self._figures.groups(column.sets)
        sides = [
            by_group(np.sum([self._matrix(one, column, pair[side]) for pair in pairs], axis=0), groups)
            for side, one in enumerate((other, line))
        ]
        before, after = (float(statistic.of(side.sum(axis=0), len(side))) for side in sides)
        (p_value,) = swap_test(sides[0], sides[1], [statistic])
        return Comparison(other.label, after - before, p_value)

    def _common(self, line: RowLayout, other: RowLayout) -> list[tuple[int, int]]:
        """Pairs of seeds, of `other` first. What has one seed is the same at each of the other's."""
        mine, its = self._seeds(line), self._seeds(other)
        if its == (0,):
            return [(0, seed) for seed in mine]
        if mine == (0,):
            return [(seed, 0) for seed in its]
        return [(seed, seed) for seed in mine if seed in its]

    def _seeds(self, line: RowLayout) -> tuple[int, ...]:
        return self._figures.seeds(line.row, self._sets)

    def _value(self, line: RowLayout, column: ColumnLayout, seed: int) -> float:
        rows = self._matrix(line, column, seed)
        return float(STATISTICS[column.measure].of(rows.sum(axis=0), len(rows)))

    def _matrix(self, line: RowLayout, column: ColumnLayout, seed: int) -> Floats:
        return self._figures.matrix(line.row, seed, column.sets, self._rule(line, column))

    def _rule(self, line: RowLayout, column: ColumnLayout) -> Rule:
        return rule_of(line, column, self._study.rows[line.row])
