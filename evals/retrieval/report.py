"""Tables of retrieval: by cut-off, by query, by preparation, the price of a floor; as JSON and as a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cases.texts import plural
from evals.pages.page import render_page
from evals.pages.plots import DASHES, DOWN, INK, MUTED, UP, drawing, note_at, percent_axes
from evals.pages.tables import POINTS, Cell, Column, Row, Table, columns, interval_object
from evals.rankings.scores import RankingScores
from evals.retrieval.scored import FLOORS, TRUNCATIONS, Ranking, rank_all, score, strategies, with_floors
from evals.statistics.bootstrap import Interval
from ranking.cutoffs import Cutoff, cutoff_text
from ranking.errors import RankerError
from ranking.examples import Example
from ranking.prepared import PreparedRanker, QueryMode, preparation
from ranking.ranker import Ranker

COLUMNS: Mapping[str, str] = {
    "P": "micro_precision",
    "R": "micro_recall",
    "F1": "micro_f1",
    "macro P": "macro_precision",
    "macro R": "macro_recall",
    "macro F1": "macro_f1",
    "AP": "average_precision",
}
"""Columns of every table, and what they are in `RankingScores`."""

Examples = Mapping[QueryMode | None, Sequence[Example]]
"""The labelled examples with each query; None where a data set has one query of its own."""


@dataclass(frozen=True, slots=True)
class RetrievalRow:
    """One row.

    Attributes:
        retrieved: Sentences an example, in the mean.
        values: 0 to 100 with 95 % intervals, by column.
    """

    name: str
    cutoff: str
    retrieved: float
    values: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class RetrievalTable:
    """One table; `caption` says what all of its rows share."""

    name: str
    title: str
    caption: str
    rows: tuple[RetrievalRow, ...]


@dataclass(frozen=True, slots=True)
class FloorCurve:
    """Micro precision and recall of a truncation by its floor, 0 to 100, in the order of `FLOORS`."""

    name: str
    precision: tuple[float, ...]
    recall: tuple[float, ...]
    f1: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RetrievalReport:
    """All of it.

    Attributes:
        ranker: Its identity.
        query: Of the tables that do not compare queries; None where there is but one.
        unlabelled: Examples without labels of people, which are left out.
        longest: Sentences of the longest document.
    """

    ranker: str
    query: QueryMode | None
    examples: int
    unlabelled: int
    sentences: int
    evidence: int
    longest: int
    tables: tuple[RetrievalTable, ...]
    floors: tuple[FloorCurve, ...]


def evaluate(
    ranker: Ranker,
    examples: Examples,
    query: QueryMode | None,
    cutoff: Cutoff,
    acronyms: Mapping[str, str],
    report: Callable[[str], None] = lambda text: None,
) -> RetrievalReport:
    """Rank the labelled examples in each way and score every cut.

    Args:
        ranker: Scores sentences; its own cut-off is not used.
        examples: All, with each query.
        query: Of `examples`, for the tables that do not compare queries.
        cutoff: Of the tables that do not compare cut-offs.
        acronyms: Long forms by acronym, for the comparison of preparations.
        report: Called with what takes long.

    Raises:
        RankerError: No example is labelled by people, or a score is no number.
    """
    labelled = {mode: _labelled(all_) for mode, all_ in examples.items()}
    if not labelled[query]:
        raise RankerError("no example is labelled by people: give a key with --key, or labelled data")
    ranked: dict[QueryMode | None, list[Ranking]] = {}
    for mode, of_mode in labelled.items():
        report(f"ranking {plural(len(of_mode), 'example')}" + (f" for the query {mode!r}" if mode else ""))
        ranked[mode] = rank_all(ranker, of_mode)
    own = ranked[query]
    asked = f", query {query}" if query else ""
    by_cutoff = {name: (rule, score(own, rule)) for name, rule in strategies().items()}
    tables = [
        RetrievalTable(
            "strategies", "Cut-offs", f"Ranker {ranker.identity}{asked}.", _rows(by_cutoff, labelled[query])
        )
    ]
    shared = f"Ranker {ranker.identity}, cut-off {cutoff_text(cutoff)}"
    if len(ranked) > 1:
        by_query = {str(mode): (cutoff, score(rankings, cutoff)) for mode, rankings in ranked.items()}
        tables.append(RetrievalTable("queries", "Queries", f"{shared}.", _rows(by_query, labelled[query])))
    by_text = {"as written": (cutoff, score(own, cutoff))}
    for name, (clean, table) in _PREPARATIONS.items():
        report(f"ranking again: {name}")
        prepared = PreparedRanker(
            ranker, preparation(clean=clean, acronyms=acronyms if table else None), name
        )
        by_text[name] = (cutoff, score(rank_all(prepared, labelled[query]), cutoff))
    tables.append(RetrievalTable("texts", "Texts", f"{shared}{asked}.", _rows(by_text, labelled[query])))
    sizes = [len(one.sentences) for one in labelled[query]]
    return RetrievalReport(
        ranker=ranker.identity,
        query=query,
        examples=len(own),
        unlabelled=len(examples[query]) - len(own),
        sentences=sum(sizes),
        evidence=sum(sum(one.labels or ()) for one in labelled[query]),
        longest=max(sizes),
        tables=tuple(tables),
        floors=tuple(_curve(name, own) for name in TRUNCATIONS),
    )


_PREPARATIONS: Mapping[str, tuple[bool, bool]] = {
    "cleaned": (True, False),
    "acronyms spelled out": (False, True),
    "both": (True, True),
}
"""Whether texts are cleaned, and whether acronyms are spelled out."""


def _labelled(examples: Sequence[Example]) -> list[Example]:
    return [one for one in examples if one.labels is not None and one.label_source == "gold"]


def _rows(
    scored: Mapping[str, tuple[Cutoff, RankingScores]], examples: Sequence[Example]
) -> tuple[RetrievalRow, ...]:
    return tuple(
        RetrievalRow(
            name,
            cutoff_text(cutoff),
            scores.selected / len(examples),
            {column: scores.values[key] for column, key in COLUMNS.items() if key in scores.values},
        )
        for name, (cutoff, scores) in scored.items()
    )


def _curve(name: str, rankings: Sequence[Ranking]) -> FloorCurve:
    found = with_floors(rankings, TRUNCATIONS[name], FLOORS)
    return FloorCurve(
        name,
        tuple(100 * one.precision for one in found),
        tuple(100 * one.recall for one in found),
        tuple(100 * one.f1 for one in found),
    )


_SHORT = ("P", "R", "F1", "macro F1", "AP")
_WITH_INTERVAL = "F1"
_STYLES = ((UP, "-"), (DOWN, "-"), (INK, "-"), (MUTED, "-"), (MUTED, DASHES))


def value_table(table: RetrievalTable) -> Table:
    """All values over their intervals."""
    rows: list[Row] = [
        [row.name, f"{row.retrieved:.1f}", *(POINTS.cell(row.values.get(one)) for one in COLUMNS)]
        for row in table.rows
    ]
    return Table(columns("", "retrieved", *COLUMNS), rows, table.title, table.caption)


def short_table(table: RetrievalTable) -> Table:
    """The values that matter most, and the interval of F1 beside it."""
    heads = columns(table.title, "retrieved", *_SHORT)
    place = 2 + _SHORT.index(_WITH_INTERVAL) + 1
    heads.insert(place, Column("95 %", "text"))
    rows = []
    for row in table.rows:
        values = [POINTS.cell(row.values.get(column)).text for column in _SHORT]
        cells = [row.name, f"{row.retrieved:.1f}", *values]
        cells.insert(place, POINTS.bracket(row.values.get(_WITH_INTERVAL)))
        rows.append(cells)
    return Table(heads, rows, caption=table.caption)


def floor_table(curves: Sequence[FloorCurve], *, with_f1: bool = False) -> Table:
    """Precision and recall of each truncation by its floor; under F1, if that is wanted."""

    def cell(precision: float, recall: float, f1: float) -> Cell:
        if with_f1:
            return Cell(f"{f1:.1f}", (f"{precision:.1f} / {recall:.1f}",))
        return Cell(f"{precision:.0f} / {recall:.0f}")

    head = "F1 (P / R)" if with_f1 else "P / R with at least"
    rows: list[Row] = [[curve.name, *(cell(*scores) for _, *scores in _points(curve))] for curve in curves]
    return Table(columns(head, *map(str, FLOORS)), rows)


def as_json(report: RetrievalReport) -> dict[str, Any]:
    """One object; values in points of 100, intervals null where there is none."""
    return {
        "ranker": report.ranker,
        "query": report.query,
        "examples": report.examples,
        "unlabelled": report.unlabelled,
        "sentences": report.sentences,
        "evidence": report.evidence,
        "longest": report.longest,
        "tables": {
            table.name: [
                {
                    "name": row.name,
                    "cutoff": row.cutoff,
                    "retrieved": row.retrieved,
                    "values": {column: interval_object(its) for column, its in row.values.items()},
                }
                for row in table.rows
            ]
            for table in report.tables
        },
        "floors": {
            curve.name: [
                {"floor": floor, "precision": precision, "recall": recall, "f1": f1}
                for floor, precision, recall, f1 in _points(curve)
            ]
            for curve in report.floors
        },
    }


def _points(curve: FloorCurve) -> Iterator[tuple[int, float, float, float]]:
    """Floor, precision, recall and F1."""
    return zip(FLOORS, curve.precision, curve.recall, curve.f1, strict=True)


def render(report: RetrievalReport) -> str:
    """The page."""
    return render_page(
        "retrieval.html",
        report=report,
        floors=FLOORS,
        value_table=value_table,
        floor_table=floor_table,
        floor_plot=floor_plot,
    )


def floor_plot(curves: Sequence[FloorCurve]) -> str:
    """Micro precision against recall, a line a truncation and a point a floor.

    Floors that change nothing lie on one point; the floors of the first truncation are named.
    """
    with drawing("floors", 6.4, 4.6) as made:
        axes = made.axes
        for curve, (colour, line) in zip(curves, _STYLES, strict=False):
            axes.plot(
                curve.recall,
                curve.precision,
                marker="o",
                color=colour,
                linestyle=line,
                markersize=4,
                label=curve.name,
            )
        for curve in curves[:1]:
            for floor, precision, recall, _ in _points(curve):
                note_at(axes, str(floor), (recall, precision), (5, 5), color=_STYLES[0][0])
        percent_axes(axes, "recall, %", "precision, %")
        axes.legend(frameon=False, labelcolor=INK)
    return made.svg
