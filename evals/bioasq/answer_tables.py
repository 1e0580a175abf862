"""Tables 4 and 5 of Verma et al. 2025 from runs: answers by shots, style and model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cases.records import Case
from cases.submissions.bioasq import BioasqPrediction
from evals.bioasq.parts import PARTS, Part
from evals.bioasq.scores import OURS, PartRows, part_rows, predictions_of_run
from evals.experiments.tables import Compared, PaperTable, TableRow
from evals.statistics.bootstrap import Interval, intervals_of, paired_bootstrap
from evals.statistics.case_totals import PERCENT
from evals.statistics.sign_flip import swap_test
from nodes.answer.exact_settings import ExactSettings
from runs.folder import RunFolder
from runs.manifest import recorded_cases, recorded_recipe

AnswerTable = Literal["bioasq-4", "bioasq-5"]


FEW_SHOTS = "few_shots"
"""The flag of a question that was shown fewer examples than its recipe asks for."""


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    part: Part
    score: str


_COLUMNS: Mapping[AnswerTable, tuple[_Column, ...]] = {
    "bioasq-4": (
        _Column("Yes/No (maF1)", "yesno", "macro_f1"),
        _Column("Factoid (MRR)", "factoid", "mrr"),
        _Column("List (mF1)", "list", "f1"),
    ),
    "bioasq-5": (
        _Column("ROUGE-2 Recall", "ideal", "rouge2_recall"),
        _Column("ROUGE-2 Precision", "ideal", "rouge2_precision"),
        _Column("ROUGE-2 F1", "ideal", "rouge2_f1"),
    ),
}
_HEADLINE: Mapping[AnswerTable, str] = {"bioasq-4": "Factoid (MRR)", "bioasq-5": "ROUGE-2 F1"}


@dataclass(frozen=True, slots=True)
class _Cell:
    """One run: its place in the table, and what it says."""

    row: str
    model: str
    said: Mapping[str, BioasqPrediction]
    cases: Mapping[str, Case]


def make_answer_table(table: AnswerTable, runs: Mapping[str, RunFolder]) -> PaperTable | None:
    """Make a table; a row is a setting of `exact.shots` and `exact.style`, as each run's recipe has it.

    Only questions that every run has done count. Where there are several models, each has its columns.

    Args:
        table: Which one.
        runs: By the names of their cells, in the order of the rows.

    Returns:
        None where there is no run, or no question that all have done.
    """
    cells = _placed(runs)
    common = set.intersection(*(set(cell.said) & set(cell.cases) for cell in cells)) if cells else set()
    cases = [case for id_, case in cells[0].cases.items() if id_ in common] if cells else []
    if not cases:
        return None
    models = [*dict.fromkeys(cell.model for cell in cells)]
    columns = {
        (model, column): f"{model}: {column.name}" if len(models) > 1 else column.name
        for model in models
        for column in _COLUMNS[table]
    }
    headline = next(one for one in _COLUMNS[table] if one.name == _HEADLINE[table])
    rows: list[TableRow] = []
    for name in dict.fromkeys(cell.row for cell in cells):
        of_row = {cell.model: cell for cell in cells if cell.row == name}
        values = tuple(
            _value(of_row[model], column, cases) if model in of_row else None for model, column in columns
        )
        first, this = _first(cells, models[0]), of_row.get(models[0])
        if rows and this is not None and this is not first:
            rows.append(TableRow(name, values, _compared(first, this, headline, cases)))
        else:
            rows.append(TableRow(name, values))
    return PaperTable(
        table=table,
        unit="share",
        columns=tuple(columns.values()),
        rows=tuple(rows),
        cases=len(cases),
        headline=columns[models[0], headline],
        not_computed={},
    )


def _placed(runs: Mapping[str, RunFolder]) -> list[_Cell]:
    cells: list[_Cell] = []
    taken = set()
    for name, run in runs.items():
        exact = recorded_recipe(run.manifest).section(ExactSettings)
        model = " + ".join(dict.fromkeys(one.name for one in run.manifest.models.values()))
        row = f"{exact.shots}-shot{'' if exact.shots == 1 else 's'} + style {exact.style}"
        if any(FEW_SHOTS in line.get("flags", ()) for line in run.cases()):
            row = f"{row}, fewer where none were left"
        if (row, model) in taken:
            # They differ in something that the paper's table does not show.
            row = f"{row} ({name})"
        taken.add((row, model))
        cells.append(
            _Cell(
                row,
                model,
                {one.id: one for one in predictions_of_run(run)},
                {case.id: case for case in recorded_cases(run.manifest)},
            )
        )
    return cells


def _first(cells: Sequence[_Cell], model: str) -> _Cell:
    return next(cell for cell in cells if cell.model == model)


def _rows(cell: _Cell, column: _Column, cases: Sequence[Case]) -> PartRows:
    return part_rows(column.part, cases, cell.said, OURS)


def _value(cell: _Cell, column: _Column, cases: Sequence[Case]) -> Interval | None:
    rows = _rows(cell, column, cases)
    if not rows.cases:
        return None
    return _in_points(intervals_of(rows.matrix, {"": PARTS[column.part].statistics[column.score]})[""])


def _compared(first: _Cell, other: _Cell, column: _Column, cases: Sequence[Case]) -> Compared | None:
    one, two = _rows(first, column, cases), _rows(other, column, cases)
    if not one.cases:
        return None
    statistic = PARTS[column.part].statistics[column.score]
    difference = paired_bootstrap(one.matrix, two.matrix, [statistic])[0].difference
    (p_value,) = swap_test(one.matrix, two.matrix, [statistic])
    return Compared(_in_points(difference), p_value)


def _in_points(interval: Interval) -> Interval:
    """Tables hold 0 to 100, and show shares."""
    value, low, high = (PERCENT * number for number in interval[:3])
    return Interval(value, low, high, interval.method)
