"""Tables from the scores of cells, an interval for each value, in the layout of TAMU 2026."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from cases.submissions.archehr import Task
from evals.experiments.definition import Table
from evals.metrics.registry import COLUMNS
from evals.scoring.measures import AVAILABLE, PairedScores, TaskScores, pair_scores
from evals.scoring.tasks import TASKS
from evals.statistics.bootstrap import Interval, paired_bootstrap
from evals.statistics.case_totals import CaseStatistic
from evals.statistics.sign_flip import swap_test

Unit = Literal["share", "points"]
"""The paper prints evidence as shares of 1 and answers as points of 100."""

_PARTS = {"P": "precision", "R": "recall", "F1": "f1"}
_AVERAGES = ("Macro", "Micro")
_AVAILABLE = "mean of available"

TASK_OF: Mapping[Table, Task] = {"3": "2026-2", "4": "2026-2", "6": "2026-3", "7": "2026-3"}
TITLES: Mapping[Table, str] = {
    "evidence": "Evidence by system and recipe",
    "1": "Rankers by training objective",
    "2": "Rankers by cut-off",
    "3": "Evidence by step: few-shot, self-reflection, voting",
    "4": "Evidence by model, strict micro",
    "6": "Answers by choice of demonstrations",
    "7": "Answers by recall of their evidence",
    "abridge-2": "Rankers by fusion type, without and with pre-training",
    "abridge-3": "Rankers on other domains than the one they were trained on",
    "abridge-5": "Rankers with noisy queries, by characters",
    "abridge-9": "Rankers with LSTM or Transformer over the sentences",
}

_TEXT_COLUMNS = {"Overall": "overall_score", **COLUMNS}
# The paper's lenient counts supplementary sentences as gold (its development tables).
_STEPS = {
    f"{shown} {average} {part}": f"{variant}_{average.lower()}_{name}"
    for shown, variant in (("Strict", "strict"), ("Lenient", "lenient_union"))
    for average in _AVERAGES
    for part, name in _PARTS.items()
}
_COLUMNS: Mapping[Table, Mapping[str, str]] = {
    "3": _STEPS,
    "4": {part: f"strict_micro_{name}" for part, name in _PARTS.items()},
    "6": _TEXT_COLUMNS,
    "7": _TEXT_COLUMNS,
}


class Compared(NamedTuple):
    """A row's headline metric against another row's.

    Attributes:
        difference: What the row has more.
        p_value: Two-sided.
    """

    difference: Interval
    p_value: float


@dataclass(frozen=True, slots=True)
class Costs:
    """What a case costs on average.

    Attributes:
        calls: Of the model, as are the tokens; replayed ones counted as if they had been made.
        processor_seconds: Of this process with its in-process models, over all cases that were run; that of
            servers is not in it, and replayed calls take next to none. None where it was not recorded.
        shared: Share of the calls that were replayed, such as those that another cell had made.
    """

    calls: float
    input_tokens: float
    output_tokens: float
    processor_seconds: float | None
    shared: float = 0.0


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row.

    Attributes:
        values: One a column; None where a metric is not computed.
        to_first: The table's headline metric against the first row's; None in the first row.
        to_baseline: The same against the table's baseline, where it has one.
        costs: Where the table has them.
    """

    name: str
    values: tuple[Interval | None, ...]
    to_first: Compared | None = None
    to_baseline: Compared | None = None
    costs: Costs | None = None


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table.

    Attributes:
        cases: Cases that are scored in every row; no others count.
        headline: The column that rows are compared by.
        not_computed: Why a column is empty, by its name.
        baseline: Name of a row that all others are compared with beside the first.
        part: What this part of a table shows, if the table has several.
        note: How intervals and differences were made, unless by bootstrap over cases.
    """

    table: Table
    unit: Unit
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    cases: int
    headline: str
    not_computed: Mapping[str, str]
    baseline: str | None = None
    part: str = ""
    note: str = ""


def unit_of(table: Table) -> Unit:
    """The unit in which its paper prints it."""
    return "points" if table.startswith("abridge") or TASK_OF.get(table) == "2026-3" else "share"


def make_table(table: Table, scored: Mapping[str, TaskScores]) -> PaperTable | None:
    """Make a table of the rows that are scored.

    Args:
        table: Which one.
        scored: Scores of its task by the name of the row, in order.

    Returns:
        None where no row, or no case in all of them, is scored.
    """
    common = on_common_cases(scored)
    if not common:
        return None
    first = next(iter(common.values()))
    wanted = dict(_COLUMNS[table])
    headline = next((name for name, its in wanted.items() if its == "strict_micro_f1"), "Overall")
    rows: list[TableRow] = []
    columns: tuple[str, ...] = ()
    for name, scores in common.items():
        paired = pair_scores(first, scores)
        statistics = _statistics(paired, wanted, TASK_OF[table])
        if headline == "Overall" and "Overall" not in statistics:
            headline = next((column for column in statistics if column.startswith(_AVAILABLE)), headline)
        columns = columns or (*wanted, *(column for column in statistics if column not in wanted))
        rows.append(_row(name, paired, statistics, columns, headline, is_first=not rows))
    names = {its: column for column, its in wanted.items()}
    return PaperTable(
        table=table,
        unit=unit_of(table),
        columns=columns,
        rows=tuple(rows),
        cases=len(first.cases),
        headline=headline,
        not_computed={names[name]: reason for name, reason in first.not_computed.items() if name in names},
    )


def on_common_cases(scored: Mapping[str, TaskScores]) -> dict[str, TaskScores]:
    """The scores on the cases that all of them have; empty where there is no such case."""
    ids = [{case.case_id for case in scores.cases} for scores in scored.values()]
    common = set.intersection(*ids) if ids else set()
    if not common:
        return {}
    return {
        name: replace(scores, cases=tuple(case for case in scores.cases if case.case_id in common))
        for name, scores in scored.items()
    }


def _statistics(paired: PairedScores, wanted: Mapping[str, str], task: Task) -> dict[str, CaseStatistic]:
    """What can be computed, by column; without an official score a mean of what there is, named so."""
    found = {measure.name: measure.statistic for measure in paired.measures}
    statistics = {column: found[name] for column, name in wanted.items() if name in found}
    if "Overall" in wanted and AVAILABLE in found:
        parts = [column for column, name in wanted.items() if name in found and name in TASKS[task].averaged]
        statistics[f"{_AVAILABLE} ({', '.join(parts)})"] = found[AVAILABLE]
    return statistics


def _row(
    name: str,
    paired: PairedScores,
    statistics: Mapping[str, CaseStatistic],
    columns: Sequence[str],
    headline: str,
    *,
    is_first: bool,
) -> TableRow:
    intervals = dict(
        zip(statistics, paired_bootstrap(paired.first, paired.second, [*statistics.values()]), strict=True)
    )
    values = tuple(intervals[column].second if column in intervals else None for column in columns)
    if is_first or headline not in intervals:
        return TableRow(name, values)
    (p_value,) = swap_test(paired.first, paired.second, [statistics[headline]])
    return TableRow(name, values, Compared(intervals[headline].difference, p_value))
