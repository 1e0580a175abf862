"""Analyses of a run's votes and citations as tables and pages: numbers and ids alone, no text of a case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evals.analysis.attribution import AttributionScores, AttributionSweep
from evals.analysis.report import Analysis
from evals.analysis.sweep import EvidenceScores
from evals.pages.page import render_page
from evals.pages.plots import DOWN, INK, MUTED, UP, drawing, note_at
from evals.pages.tables import NO_VALUE, PERCENT, Cell, Column, Table, columns

_SCORES = (
    Column("precision", short="P"),
    Column("recall", short="R"),
    Column("F1"),
    Column("macro F1", short="macro"),
    Column("lenient F1", short="lenient"),
)


def score_table(rows: Sequence[EvidenceScores], threshold: int | None = None) -> Table:
    """Evidence scores, a row a choice of sentences; that at the recipe's threshold is marked."""
    heads = [Column("", "text"), Column("cases"), Column("sentences", short="sent."), *_SCORES]
    return Table(
        # Names of intents have up to 31 letters and nowhere to break them: they fit on 80 columns like this.
        [column._replace(wraps=False) for column in heads],
        [
            [
                Cell(row.name, marked=row.name == f"T = {threshold}"),
                f"{row.cases:,}",
                f"{row.sentences:,}",
                *_percents(row),
            ]
            for row in rows
        ],
    )


def attribution_table(found: AttributionSweep) -> Table:
    """A row for each threshold and each set of weights; the recipe's is marked."""
    heads = [
        Column("weights (lexical / fuzzy / semantic)", "text", short="weights"),
        Column("threshold", short="t"),
        Column("citations", short="cites"),
        Column("cases without", short="uncited"),
        *_SCORES,
        Column("clinician\N{RIGHT SINGLE QUOTATION MARK}s F1", short="clin."),
    ]
    return Table(
        [column._replace(wraps=False) for column in heads],
        [
            [
                str(row.weights),
                Cell(
                    f"{row.threshold:g}",
                    marked=(row.weights, row.threshold) == (found.weights, found.threshold),
                ),
                f"{row.citations:,}",
                f"{row.uncited:,}",
                *_percents(row),
                NO_VALUE if row.clinician_micro is None else PERCENT.number(row.clinician_micro.f1),
            ]
            for row in found.rows
        ],
    )


def _percents(row: EvidenceScores | AttributionScores) -> list[str]:
    """In the columns of `_SCORES`."""
    return [PERCENT.number(one) for one in (*row.strict_micro, row.strict_macro.f1, row.lenient_micro.f1)]


def render_analysis(found: Analysis) -> str:
    """The page of a run's votes."""
    return render_page(
        "analysis.html",
        found=found,
        scores=score_table,
        curve=precision_recall_plot,
        counts=vote_counts_table,
        confusion=confusion_table,
    )


def render_attribution(found: AttributionSweep) -> str:
    """The page of a run's citations."""
    return render_page("attribution.html", found=found, scores=attribution_table, curve=threshold_plot)


def precision_recall_plot(by_threshold: Sequence[EvidenceScores], threshold: int) -> str:
    """Precision against recall, strict micro, a point a threshold; the recipe's is marked."""
    with drawing("curve", 5.2, 4.2) as made:
        axes = made.axes
        recall = [100 * entry.strict_micro.recall for entry in by_threshold]
        precision = [100 * entry.strict_micro.precision for entry in by_threshold]
        axes.plot(recall, precision, color=MUTED, linewidth=1.5, zorder=1)
        for number, point in enumerate(zip(recall, precision, strict=True), 1):
            own = number == threshold
            axes.scatter(*point, s=70 if own else 36, color=UP if own else INK, zorder=2)
            note_at(axes, f"T = {number}", point, (6, 6))
        # With room for marks at both ends.
        axes.set(xlim=(-3, 108), ylim=(-3, 108), xlabel="recall, %", ylabel="precision, %")
    return made.svg


def vote_counts_table(by_count: Mapping[int, int], votes: int) -> Table:
    """How many sentences have how many essential votes."""
    counts = range(votes + 1)
    return Table(
        columns(f"essential votes of {votes}", *map(str, counts)),
        [["sentences", *(f"{by_count.get(number, 0):,}" for number in counts)]],
    )


def confusion_table(confusion: Mapping[tuple[str, str], int]) -> Table:
    """Cases by gold intent (rows) and predicted intent (columns)."""
    names = sorted({name for pair in confusion for name in pair})
    return Table(
        columns("by the key", *names),
        [[gold, *(f"{confusion.get((gold, made), 0):,}" for made in names)] for gold in names],
    )


def threshold_plot(rows: Sequence[AttributionScores], threshold: float) -> str:
    """Strict micro precision, recall and F1 against the threshold; the run's is marked."""
    with drawing("attribution", 5.2, 3.6) as made:
        axes = made.axes
        places = [row.threshold for row in rows]
        axes.axvline(threshold, color=MUTED, linewidth=1, linestyle=":")
        for name, colour in (("precision", UP), ("recall", DOWN), ("f1", INK)):
            values = [100 * getattr(row.strict_micro, name) for row in rows]
            axes.plot(places, values, color=colour, marker="o", markersize=4, linewidth=1.5)
            label = "F1" if name == "f1" else name
            note_at(axes, label, (places[0], values[0]), (4, 4))
        axes.set(ylim=(-3, 108), xlabel="threshold", ylabel="%")
    return made.svg
