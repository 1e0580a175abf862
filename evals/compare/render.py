"""A comparison as tables, and as a page: no scripts, nothing fetched, plots inside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evals.compare.changes import CaseChange, F1Pair, by_gain, intent_changes, route_changes
from evals.compare.comparison import Comparison
from evals.compare.differences import TaskDifferences, verdict
from evals.compare.matrix import Matrix
from evals.compare.outcomes import Setting, in_words
from evals.pages.page import render_page
from evals.pages.plots import DASHES, DOWN, INK, MUTED, UP, drawing, forest_plot
from evals.pages.tables import NO_VALUE, POINTS, Cell, Column, Format, Row, Table, Tone, Value, p_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_F1 = Format(1, times=100)
_ANSWER_HEADS = (Column("case", "id"), Column("A", "answer"), Column("B", "answer"))
_MAX_BUBBLES = 400
"""With more distinct pairs of scores, bins are drawn."""


def metric_table(task: TaskDifferences, *, with_sides: bool) -> Table:
    """A row a metric: with the intervals of the runs themselves (`with_sides`), or only main ones without."""
    heads = [Column("metric", "name" if with_sides else "text")]
    for side in ("A", "B"):
        heads += [Column(side, wraps=False), *([Column(f"interval of {side}")] if with_sides else [])]
    heads += [
        Column("B \N{MINUS SIGN} A", short="B - A", wraps=False),
        Column("interval of B \N{MINUS SIGN} A", short="interval", wraps=False),
        Column("p", wraps=False),
    ]
    form, rows = task.scored.form, []
    for metric in task.metrics:
        if not (with_sides or metric.main):
            continue
        row: list[Value] = [Cell(metric.name, tone="strong" if metric.is_clear else "")]
        for its in (metric.first, metric.second):
            row += [form.number(its.value), *([form.bracket(its) or NO_VALUE] if with_sides else [])]
        gain = metric.difference
        way = _tone(gain.low) if metric.is_clear else ""
        row += [
            Cell(form.number(gain.value, signed=True), tone=way),
            form.bracket(gain, signed=True) or NO_VALUE,
        ]
        rows.append([*row, p_text(metric.p_value)])
    return Table(heads, rows)


def case_table(changes: Sequence[CaseChange], most: int) -> Table:
    """Cases whose F1 changed, at most so many, with all that became of their sentences."""
    heads = [Column("case", "id"), Column("A"), Column("B"), Column("B \N{MINUS SIGN} A")]
    named = [Column(title, "id") for title in ("found", "lost", "wrong", "righted")]
    rows: list[Row] = []
    for change in changes[:most]:
        assert change.f1 is not None and change.sentences is not None
        also = (
            ("intent", change.intents),
            ("route", change.route_changed),
            ("answer", change.answer_changed),
        )
        rows.append(
            [
                change.case_id,
                _F1.number(change.f1.first),
                _F1.number(change.f1.second),
                Cell(_F1.number(change.f1.gain, signed=True), tone=_tone(change.f1.gain)),
                *(" ".join(ids) for ids in change.sentences),
                ", ".join(name for name, changed in also if changed),
            ]
        )
    return _first(most, changes, [*heads, *named, Column("also changed", "text")], rows)


def setting_table(settings: Sequence[Setting], title: str, most: int) -> Table:
    """Settings that differ, at most so many."""
    heads = [Column(name, "text") for name in (title, "A", "B")]
    return _first(most, settings, heads, settings[:most])


def render(comparison: Comparison, *, rows: int, with_texts: bool) -> str:
    """The page, with at most so many rows of each list.

    With texts it holds the answers that differ, which are as confidential as the cases.
    """
    changes = comparison.changes
    gained, lost = by_gain(changes)
    f1 = [change.f1 for change in changes if change.f1 is not None]
    return render_page(
        "comparison.html",
        comparison=comparison,
        rows=rows,
        with_texts=with_texts,
        p=p_text,
        verdict=verdict,
        differences_plot=differences_plot,
        metrics=metric_table,
        f1=f1,
        case_plot=case_plot,
        gained=gained,
        lost=lost,
        cases=case_table,
        relabelled=[] if f1 else _relabelled(changes),
        changed_labels=_changed_labels,
        answers=_answers(comparison, [*gained, *lost]),
        answer_table=lambda answers, most: _first(most, answers, _ANSWER_HEADS, answers[:most]),
        routes=route_changes(changes),
        intents=intent_changes(changes),
        moves=_moves,
        settings=setting_table,
        words=in_words(comparison.settings),
    )


def render_matrix(matrix: Matrix) -> str:
    """The page of several runs."""
    return render_page(
        "matrix.html",
        matrix=matrix,
        runs=matrix.runs_table(),
        cases=matrix.cases_table(worst_first=True),
        differences=list(matrix.differences()),
    )


def _relabelled(changes: Sequence[CaseChange]) -> list[CaseChange]:
    """Cases whose labels changed, those that changed most first."""
    moved = [change for change in changes if change.added or change.removed]
    return sorted(moved, key=lambda change: -len(change.added) - len(change.removed))


def _changed_labels(relabelled: Sequence[CaseChange], most: int) -> Table:
    heads = [Column(one, "id") for one in ("case", "essential in B alone", "essential in A alone")]
    rows = [
        [change.case_id, " ".join(change.added), " ".join(change.removed)] for change in relabelled[:most]
    ]
    return _first(most, relabelled, heads, rows)


def _moves(title: str, counts: Mapping[tuple[str, str], int], most: int) -> Table:
    heads = [Column("cases"), Column(f"{title} in A alone", "text"), Column(f"{title} in B alone", "text")]
    rows = [
        [f"{count:,}", *(pair if any(pair) else ("the same steps, in another order or number", ""))]
        for pair, count in list(counts.items())[:most]
    ]
    return _first(most, list(counts), heads, rows)


def _answers(comparison: Comparison, moved: Sequence[CaseChange]) -> list[list[str]]:
    """Answers that differ; those of the cases with the largest change of score come first."""
    by_size = sorted(moved, key=lambda change: -abs(change.f1.gain) if change.f1 else 0.0)
    order = {change.case_id: change for change in [*by_size, *comparison.changes]}
    return [
        [id_, *(side.cases[id_].answer or "(none)" for side in (comparison.first, comparison.second))]
        for id_, change in order.items()
        if change.answer_changed
    ]


def _first(most: int, everything: Sequence[object], heads: Sequence[Column], rows: Sequence[Row]) -> Table:
    """A table of the first `most` of everything."""
    return Table(heads, rows, left_out=max(0, len(everything) - most))


def _tone(gain: float) -> Tone:
    return "up" if gain > 0 else "down" if gain < 0 else ""


def differences_plot(task: TaskDifferences, name: str) -> str:
    """Differences of metrics with their intervals, 0 marked; coloured where an interval leaves it out."""
    axis = "B minus A, points" if task.scored.form == POINTS else "B minus A"
    rows = [
        (one.name, one.difference, (UP if one.difference.low > 0 else DOWN) if one.is_clear else INK)
        for one in task.metrics
    ]
    return forest_plot(rows, axis, name, reference=0)


def case_plot(scores: Sequence[F1Pair], name: str) -> str:
    """F1 of every case in A against B: an area for the number of cases, bins where there are many scores."""
    pairs = Counter((round(pair.first, 4), round(pair.second, 4)) for pair in scores)
    with drawing(name, 4.6, 4.6) as made:
        axes = made.axes
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=DASHES)
        if len(pairs) <= _MAX_BUBBLES:
            _bubbles(axes, pairs)
        else:
            _bins(axes, scores)
        axes.set_xlim(-0.05, 1.05)
        axes.set_ylim(-0.05, 1.05)
        axes.set_aspect("equal")
        # In percent, as the tables.
        ticks, labels = np.linspace(0, 1, 6), ["0", "20", "40", "60", "80", "100"]
        axes.set_xticks(ticks, labels)
        axes.set_yticks(ticks, labels)
        axes.set_xlabel("strict F1 in A")
        axes.set_ylabel("strict F1 in B")
    return made.svg


def _bubbles(axes: Axes, pairs: Counter[tuple[float, float]]) -> None:
    most = max(pairs.values(), default=1)
    for colour, sign in ((UP, 1), (DOWN, -1), (INK, 0)):
        chosen = [(pair, count) for pair, count in pairs.items() if np.sign(pair[1] - pair[0]) == sign]
        if chosen:
            axes.scatter(
                [pair[0] for pair, _ in chosen],
                [pair[1] for pair, _ in chosen],
                s=[40 + 300 * (count / most) * (most > 1) for _, count in chosen],
                color=colour,
                alpha=0.75,
                linewidths=0,
            )


def _bins(axes: Axes, scores: Sequence[F1Pair]) -> None:
    """Squares whose strength is the logarithm of their number of cases."""
    edges = np.linspace(-0.02, 1.02, 27)
    counts, _, _ = np.histogram2d(
        [pair.first for pair in scores], [pair.second for pair in scores], bins=[edges, edges]
    )
    centres = (edges[:-1] + edges[1:]) / 2
    columns, rows = np.nonzero(counts)
    strength = 0.15 + 0.85 * np.log1p(counts) / np.log1p(counts.max())
    for colour, sign in ((UP, 1), (DOWN, -1), (INK, 0)):
        of_sign = np.sign(rows - columns) == sign
        column, row = columns[of_sign], rows[of_sign]
        axes.scatter(
            centres[column],
            centres[row],
            s=80,
            marker="s",
            color=colour,
            alpha=strength[column, row],
            linewidths=0,
        )
