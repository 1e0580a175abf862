"""Tables 1 and 2 of Verma et al. 2025: what retrievers find, and rerankers by depth; as JSON and a page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from evals.pages.page import render_page
from evals.pages.plots import DOWN, INK, MUTED, UP, drawing, interval_plot, legend_above
from evals.pages.tables import Cell, Column, Format, Row, Table, interval_object, p_text
from evals.search.ensembles import Split, tuned_ensembles
from evals.search.rankings import Rankings
from evals.search.retrievers import Scored
from evals.statistics.bootstrap import Interval, paired_bootstrap
from evals.statistics.case_totals import Floats, Mean
from evals.statistics.sign_flip import swap_test
from ranking.measures import average_precision, ndcg, recall

Measure = Callable[[Sequence[str], Collection[str]], float]

MAP, NDCG = "MAP@10", "nDCG@10"
RECALL_DEPTHS = (10, 100, 1000)
RETRIEVAL: Mapping[str, Measure] = {
    **{f"R@{depth}": partial(recall, depth=depth) for depth in RECALL_DEPTHS},
    MAP: average_precision,
    NDCG: ndcg,
}
RERANKING: Mapping[str, Measure] = {MAP: average_precision, NDCG: ndcg}
NO_RERANKER = "no reranker"
TUNING, TEST = "tuning", "test"


@dataclass(frozen=True, slots=True)
class Value:
    """A mean over questions, and how it differs from the first row's.

    Attributes:
        difference: From the first row; None in it.
        p_value: Of a paired randomisation test against the first row; None in it.
    """

    interval: Interval
    difference: Interval | None = None
    p_value: float | None = None


Rows = Mapping[str, Mapping[str, Value]]
"""Of each system its values by column; a column that it has no value in is missing."""


@dataclass(frozen=True, slots=True)
class SearchTable:
    """A table whose later rows are tested against its first."""

    name: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: Rows


@dataclass(frozen=True, slots=True)
class SearchReport:
    """Results of a search evaluation, and their data.

    Attributes:
        part: Of the questions that were given; None for all.
        unjudged: Questions that were left out, since no document is relevant to them.
        relevant: Relevant documents of all questions together.
        missing: Those of them that the corpus does not hold, so no search finds them.
        depths: Retrieved documents that rerankers were given.
        trained_on: Training questions by reranker, where known.
    """

    questions: int
    part: str | None
    unjudged: int
    relevant: int
    missing: int
    documents: int
    searched: str
    source: str
    depths: tuple[int, ...]
    trained_on: Mapping[str, int]
    tables: tuple[SearchTable, ...]


def retrieval_table(rankings: Rankings, depth: int) -> SearchTable:
    """Table 1: recall of the retrieved documents, up to the depth of the search."""
    measures = {
        name: measure
        for name, measure in RETRIEVAL.items()
        if not name.startswith("R@") or int(name.removeprefix("R@")) <= depth
    }
    rows = {str(name): _matrix(rankings, found, measures) for name, found in rankings.retrieved.items()}
    return SearchTable(
        "retrieval",
        "Retrieval",
        "R@n: share of the relevant documents among the first n, mean over questions.",
        tuple(measures),
        _rows(rows, tuple(measures)),
    )


def reranking_table(rankings: Rankings, rerankers: Sequence[str], depths: Sequence[int]) -> SearchTable:
    """Table 2: the first ten documents by reranker and by how many retrieved documents it was given."""
    columns = tuple(f"{measure} of {depth:,}" for measure in RERANKING for depth in depths)
    plain = _matrix(rankings, rankings.retrieved[rankings.source], RERANKING)
    rows = {f"{NO_RERANKER} ({rankings.source})": np.repeat(plain, len(depths), axis=1)}
    for name in rerankers:
        by_depth = [_matrix(rankings, rankings.reranked[name, depth], RERANKING) for depth in depths]
        rows[name] = np.concatenate(
            [matrix[:, [place]] for place in range(len(RERANKING)) for matrix in by_depth], axis=1
        )
    return SearchTable(
        "reranking",
        "Reranking",
        "The first ten documents, by how many retrieved documents a reranker was given.",
        columns,
        _rows(rows, columns),
    )


def ensemble_table(
    rankings: Rankings, rerankers: Sequence[str], depths: Sequence[int], split: Split
) -> SearchTable:
    """Rerankers alone and with the retriever, on the questions that chose the weights and on the others."""
    depth = max(depths)
    ensembles = tuned_ensembles(rankings, rerankers, depth, split)
    plain = _matrix(rankings, rankings.retrieved[rankings.source], RERANKING)
    matrices = {f"{NO_RERANKER} ({rankings.source})": plain}
    for name, ensemble in ensembles.items():
        matrices[name] = _matrix(rankings, rankings.reranked[name, depth], RERANKING)
        of_reranker, of_retriever = ensemble.weights
        both = f"{name} x {of_reranker:g} + retriever x {of_retriever:g}"
        matrices[both] = _matrix(rankings, ensemble.found, RERANKING)
    values: dict[str, dict[str, Value]] = {name: {} for name in matrices}
    for part, tuning in ((TUNING, True), (TEST, False)):
        columns = tuple(f"{measure} {part}" for measure in RERANKING)
        of_part = {name: split.rows(matrix, tuning=tuning) for name, matrix in matrices.items()}
        for name, its in _rows(of_part, columns).items():
            values[name] |= its
    tuned = sum(split.tuning)
    return SearchTable(
        "ensemble",
        "Ensembles",
        f"Weights of a reranker and the retriever, chosen by MAP@10 on part {split.part} of the questions"
        f" ({tuned:,}), tested on the other {len(split.tuning) - tuned:,}. {depth:,} documents are ordered.",
        tuple(f"{measure} {part}" for part in (TUNING, TEST) for measure in RERANKING),
        values,
    )


def _matrix(rankings: Rankings, found: Sequence[Sequence[Scored]], measures: Mapping[str, Measure]) -> Floats:
    """Shape (questions, measures)."""
    rows = [
        [measure([one.id for one in ranking], question.relevant) for measure in measures.values()]
        for question, ranking in zip(rankings.questions, found, strict=True)
    ]
    return np.array(rows, dtype=np.float64)


def _rows(matrices: Mapping[str, Floats], columns: Sequence[str]) -> Rows:
    statistics = [Mean(column) for column in range(len(columns))]
    first = next(iter(matrices.values()))
    rows: dict[str, dict[str, Value]] = {}
    for place, (name, matrix) in enumerate(matrices.items()):
        paired = paired_bootstrap(first, matrix, statistics)
        if place == 0:
            values = [Value(one.first) for one in paired]
        else:
            tests = swap_test(first, matrix, statistics)
            values = [Value(one.second, one.difference, p) for one, p in zip(paired, tests, strict=True)]
        rows[name] = dict(zip(columns, values, strict=True))
    return rows


_DIGITS = Format(3)
_STYLES = ((MUTED, "--"), (UP, "-"), (DOWN, "-"), (INK, "-"), (UP, ":"), (DOWN, ":"), (INK, ":"))


def table_of(table: SearchTable) -> Table:
    """Values with their intervals and their comparison to the first row."""
    heads = [Column("", "text", short=table.title), *map(Column, table.columns)]
    rows: list[Row] = [
        [name, *(_cell(values[column]) for column in table.columns)] for name, values in table.rows.items()
    ]
    return Table(heads, rows, table.title, table.caption)


def _cell(value: Value) -> Cell:
    below = [_DIGITS.bracket(value.interval)]
    if value.difference is not None and value.p_value is not None:
        gain = _DIGITS.number(value.difference.value, signed=True)
        below.append(f"{gain}, p {p_text(value.p_value, equals=True)}")
    return Cell(_DIGITS.number(value.interval.value), tuple(below))


def as_json(report: SearchReport) -> dict[str, Any]:
    """One object; values from 0 to 1, intervals null where there is none."""
    return {
        **{name: value for name, value in asdict(report).items() if name != "tables"},
        "tables": {
            table.name: [
                {"name": name, "values": {column: _value(its) for column, its in values.items()}}
                for name, values in table.rows.items()
            ]
            for table in report.tables
        },
    }


def _value(value: Value) -> dict[str, Any]:
    found: dict[str, Any] = interval_object(value.interval)
    if value.difference is not None:
        found |= {"difference": interval_object(value.difference), "p_value": value.p_value}
    return found


def render(report: SearchReport) -> str:
    """The page."""
    return render_page("search.html", report=report, table_of=table_of, plots=_plots)


def _plots(report: SearchReport, table: SearchTable) -> Iterator[str]:
    headline = {"retrieval": NDCG, "ensemble": f"{NDCG} {TEST}"}.get(table.name)
    if headline is not None:
        rows = [(name, values[headline].interval) for name, values in table.rows.items()]
        yield interval_plot(rows, headline, table.name)
        return
    if len(report.depths) > 1:
        yield depth_plot(table, report.depths)
    if len(set(report.trained_on.values())) > 1:
        yield learning_curve(table, f"{NDCG} of {max(report.depths):,}", report.trained_on)


def depth_plot(table: SearchTable, depths: Sequence[int]) -> str:
    """A line a reranker over the number of retrieved documents that it was given."""
    with drawing("depths", 7.2, 4.2) as made:
        axes = made.axes
        places = range(len(depths))
        for number, (name, its) in enumerate(table.rows.items()):
            colour, line = _STYLES[number % len(_STYLES)]
            values = [its[f"{MAP} of {depth:,}"].interval.value for depth in depths]
            axes.plot(places, values, color=colour, linestyle=line, marker="o", markersize=4, label=name)
        axes.set_xticks(list(places), [f"{depth:,}" for depth in depths])
        axes.set_xlabel("retrieved documents")
        axes.set_ylabel(MAP)
        legend_above(axes)
    return made.svg


def learning_curve(table: SearchTable, column: str, trained_on: Mapping[str, int]) -> str:
    """Rerankers by how many questions they learned from, against the documents as they were retrieved."""
    known = ((trained_on[name], name) for name in table.rows if name in trained_on)
    counts = sorted(known, key=lambda point: point[0])
    first = next(iter(table.rows))
    plain = table.rows[first][column].interval
    with drawing("learning", 7.2, 4.2) as made:
        axes = made.axes
        axes.axhline(plain.value, color=MUTED, linestyle="--", linewidth=1.2, label=first)
        axes.axhspan(plain.low, plain.high, color=MUTED, alpha=0.12, linewidth=0)
        values = [table.rows[name][column].interval for _, name in counts]
        below = [one.value - one.low for one in values]
        above = [one.high - one.value for one in values]
        axes.errorbar(
            [count for count, _ in counts],
            [one.value for one in values],
            yerr=[below, above],
            color=UP,
            marker="o",
            markersize=5,
            capsize=3,
            label="trained reranker",
        )
        axes.set_xlim(left=0)
        axes.set_xlabel("questions learned from")
        axes.set_ylabel(column)
        legend_above(axes)
    return made.svg
