"""Tables from the scores of cells, an interval for each value, in the layout of TAMU 2026."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

from cases.submissions.archehr import Task
from evals.experiments.definition import Table
from evals.metrics.registry import COLUMNS
from evals.pages.tables import POINTS
from evals.scoring.score import AVAILABLE, ArchehrScores
from evals.scoring.scored_task import ScoredTask, on_common_cases, pair
from evals.scoring.tasks import TASKS
from evals.statistics.bootstrap import Interval, intervals_of, paired_bootstrap
from evals.statistics.sign_flip import holm, swap_test
from ranking.measures import Part

Unit = Literal["share", "points", "of 1"]
"""The paper prints evidence as shares of 1 and answers as points of 100. Measures of BioASQ are 0 to 1."""

PART_TITLES: Mapping[str, Part] = {"P": "precision", "R": "recall", "F1": "f1"}

TASK_OF: Mapping[Table, Task] = {"3": "2026-2", "4": "2026-2", "6": "2026-3", "7": "2026-3"}
TITLES: Mapping[Table, str] = {
    "evidence": "Evidence by system and recipe",
    "scores": "Scores",
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
    for average in ("Macro", "Micro")
    for part, name in PART_TITLES.items()
}
_COLUMNS: Mapping[Table, Mapping[str, str]] = {
    "3": _STEPS,
    "4": {part: f"strict_micro_{name}" for part, name in PART_TITLES.items()},
    "6": _TEXT_COLUMNS,
    "7": _TEXT_COLUMNS,
}


class Compared(NamedTuple):
    """A row's headline metric against another row's.

    Attributes:
        difference: Advantage of the row.
        p_value: Two-sided.
    """

    difference: Interval
    p_value: float


@dataclass(frozen=True, slots=True)
class Costs:
    """Average cost of a case.

    Attributes:
        calls: Of the model, as are the tokens; replayed ones counted as if they had been made.
        processor_seconds: Of this process with its in-process models, over all cases that were run; excludes
            servers, and replayed calls take almost none. None if not recorded.
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
        baseline: Name of a row that all others are compared with, in addition to the first.
        part: Content of this part, if the table has several.
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


def make_table(table: Table, scored: Mapping[str, ArchehrScores]) -> PaperTable | None:
    """Make a table of the rows that are scored on its task; None if no case is scored in all of them."""
    common = on_common_cases(scored)
    if not common:
        return None
    first = next(iter(scored.values()))
    columns = dict(_COLUMNS[table])
    headline = next((column for column, name in columns.items() if name == "strict_micro_f1"), "Overall")
    averaged = TASKS[first.task].averaged
    if "Overall" in columns and AVAILABLE in first.statistics:
        parts = [column for column, name in columns.items() if name in first.values and name in averaged]
        headline = f"mean of available ({', '.join(parts)})"
        columns[headline] = AVAILABLE
    missing = first.not_computed
    reasons = {column: missing[name] for column, name in columns.items() if name in missing}
    return made_table(table, unit_of(table), common, columns, headline, not_computed=reasons)


def make_score_tables(scored: Mapping[str, Sequence[ScoredTask]]) -> list[PaperTable]:
    """Make a table of each task that rows are scored on, with its main scores; for systems of any kind."""
    tables = []
    for name in dict.fromkeys(task.task for tasks in scored.values() for task in tasks):
        rows = {row: task for row, tasks in scored.items() for task in tasks if task.task == name}
        common = on_common_cases(rows)
        if not common:
            continue
        first = next(iter(common.values()))
        columns = {one.name: one.name for one in first.scores if one.main or one.name == first.headline}
        unit: Unit = "points" if first.form == POINTS else "of 1"
        tables.append(made_table("scores", unit, common, columns, first.headline, part=first.title))
    return tables


def made_table(
    table: Table,
    unit: Unit,
    tasks: Mapping[str, ScoredTask],
    columns: Mapping[str, str],
    headline: str,
    *,
    part: str = "",
    baseline: str | None = None,
    costs: Mapping[str, Costs | None] = MappingProxyType({}),
    not_computed: Mapping[str, str] = MappingProxyType({}),
) -> PaperTable:
    """A table of tasks on the same cases.

    Tasks and costs are by the name of the row, scores by column. With a baseline p-values are corrected for
    the number of rows (Holm 1979), each of the two columns by itself.
    """
    first = next(iter(tasks))
    paired = {name: pair(tasks[baseline or first], task) for name, task in tasks.items()}

    def compared(reference: str) -> dict[str, Compared]:
        found, p_values = {}, []
        for name, one in paired.items():
            statistic = next((its.statistic for its in one.scores if its.name == columns[headline]), None)
            if name != reference and statistic is not None:
                sides = paired[reference].second, one.second
                found[name] = paired_bootstrap(*sides, [statistic])[0].difference
                p_values += swap_test(*sides, [statistic])
        corrected = p_values if baseline is None else holm(p_values)
        return {name: Compared(found[name], p_value) for name, p_value in zip(found, corrected, strict=True)}

    to_first = compared(first)
    to_baseline = {} if baseline is None else compared(baseline)
    rows = []
    for name, one in paired.items():
        values = intervals_of(one.second, {score.name: score.statistic for score in one.scores})
        cells = tuple(values.get(score) for score in columns.values())
        rows.append(TableRow(name, cells, to_first.get(name), to_baseline.get(name), costs.get(name)))
    return PaperTable(
        table=table,
        unit=unit,
        columns=tuple(columns),
        rows=tuple(rows),
        cases=len(paired[first].case_ids),
        headline=headline,
        not_computed=not_computed,
        baseline=baseline,
        part=part,
    )
