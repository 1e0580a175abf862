"""Scores for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from cli.terminal import output, safe
from evals.scoring.scored_tasks import ScoredTask
from evals.scoring.texts import OVERALL
from evals.statistics.bootstrap import Interval

_TITLES = {
    "2025": "2025: cited answer",
    "2026-1": "2026, subtask 1: clinician question",
    "2026-2": "2026, subtask 2: evidence",
    "2026-3": "2026, subtask 3: answer",
    "2026-4": "2026, subtask 4: links between answer and evidence",
}
_PARTS = ("precision", "recall", "f1")
_AVERAGES = ("micro", "macro")


def print_scores(origin: str, scored: Sequence[ScoredTask]) -> None:
    """Print each task: sets, texts, what is missing and why, and the overall score if it is official."""
    console = output()
    console.print(safe(origin))
    for one in scored:
        scores, intervals = one.scores, one.intervals()
        console.print(f"\n[bold]{_TITLES[scores.task]}[/bold]  {len(scores.cases):,} cases")
        variants = _variants({**scores.values, **scores.extra})
        if variants:
            _print_sets(variants, intervals)
        if scores.task in OVERALL:
            _print_texts(one, intervals)
        _print_overall(one, intervals)
        for note in scores.notes:
            console.print(safe(f"  {note}"), soft_wrap=True)


def _variants(values: Mapping[str, float]) -> dict[str, list[float]]:
    """Precision, recall and F1 by the variant and average that their names begin with."""
    found: dict[str, list[float]] = {}
    for name in values:
        prefix, _, part = name.rpartition("_")
        if part == "precision" and prefix.rpartition("_")[2] in _AVERAGES:
            found[prefix] = [values[f"{prefix}_{one}"] for one in _PARTS]
    return found


def _print_sets(variants: Mapping[str, Sequence[float]], intervals: Mapping[str, Interval]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 2))
    table.add_column("")
    for name in ("precision", "recall", "F1"):
        table.add_column(name, justify="right")
    table.add_column("F1, 95 %")
    for name, values in variants.items():
        shown = (f"{value:.2f}" for value in values)
        table.add_row(safe(name.replace("_", " ")), *shown, _bracket(intervals.get(f"{name}_f1")))
    output().print(table)


def _bracket(interval: Interval | None) -> Text:
    """Brackets would be markup."""
    return safe("" if interval is None else f"[{interval.low:.2f}, {interval.high:.2f}]")


def _print_texts(one: ScoredTask, intervals: Mapping[str, Interval]) -> None:
    scores = one.scores
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 2))
    table.add_column("")
    table.add_column("", justify="right")
    table.add_column("", overflow="fold")
    for name in (*scores.values, *scores.extra):
        if name.rpartition("_")[2] not in _PARTS and not name.startswith("overall"):
            value = {**scores.values, **scores.extra}[name]
            table.add_row(name, f"{value:.2f}", _bracket(intervals.get(name)))
    for name, reason in scores.not_computed.items():
        table.add_row(name, "-", safe(f"not computed: {reason}"))
    output().print(table)


def _print_overall(one: ScoredTask, intervals: Mapping[str, Interval]) -> None:
    console, scores = output(), one.scores
    if one.overall_score is not None:
        # Of evidence and links the official score is one of the values, and has its interval there.
        console.print(
            f"  [bold]overall_score[/bold] {one.overall_score:.2f}", _bracket(intervals.get("overall_score"))
        )
        return
    if scores.unscored:
        more = ", ..." if scores.unscored[3:] else ""
        console.print(
            safe(
                f"  no overall_score: {len(scores.unscored):,} cases of the key have no prediction"
                f" ({', '.join(scores.unscored[:3])}{more})"
            )
        )
    if scores.mean_of_available is not None:
        named = ", ".join(name for name in OVERALL[scores.task] if name in scores.values)
        bracket = _bracket(intervals.get("mean_of_available"))
        line = safe(f"  mean_of_available {scores.mean_of_available:.2f} ") + bracket
        console.print(line + safe(f" ({named}); no overall_score"), soft_wrap=True)
