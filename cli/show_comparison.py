"""A comparison of two runs on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.terminal import output, safe
from evals.compare.changes import CaseChange, by_gain, intent_changes, route_changes
from evals.compare.comparison import Comparison
from evals.compare.differences import MetricDifference, TaskDifferences
from evals.compare.wording import p_text, verdict


def print_comparison(comparison: Comparison, *, rows: int, page: Path | None) -> None:
    """Print scores, cases, changes and cautions, at most `rows` rows of each list."""
    console = output()
    _runs(console, comparison)
    for task in comparison.tasks:
        _scores(console, comparison, task)
    _labels(console, comparison)
    gained, lost = by_gain(comparison.changes)
    _cases(console, "gained", gained, rows)
    _cases(console, "lost", lost, rows)
    _counts(console, "routes", route_changes(comparison.changes), len(comparison.changes), rows)
    _counts(console, "intents", intent_changes(comparison.changes), len(comparison.changes), rows)
    _settings(console, comparison, rows)
    _usage(console, comparison)
    for caution in comparison.cautions:
        console.print(safe(f"! {caution}", "yellow"))
    for line in _next(comparison, gained, lost, page):
        console.print(safe(line))


def _runs(console: Console, comparison: Comparison) -> None:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, run in (("A", comparison.first), ("B", comparison.second)):
        models = dict.fromkeys(model.name for model in run.manifest.models.values())
        grid.add_row(name, safe(f"{run.name}  ({run.manifest.system}; {', '.join(models) or 'no model'})"))
    changed = sum(change.answer_changed for change in comparison.changes)
    grid.add_row("cases", f"{len(comparison.changes):,} done in both; {changed:,} answers differ")
    console.print(grid)


def _scores(console: Console, comparison: Comparison, task: TaskDifferences) -> None:
    console.print()
    level = f"{comparison.judged_by.level:.4g}"
    console.print(
        Text(f"{task.task}: {task.cases:,} cases scored in both; intervals at {level}", style="bold")
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("metric", overflow="fold")
    for name in ("A", "B", "B - A", "interval", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    for metric in task.metrics:
        if metric.main:
            table.add_row(*_metric(metric))
    console.print(table)
    rest = sum(not metric.main for metric in task.metrics)
    if rest:
        console.print(Text(f"{rest} more metrics: --json or --html FILE", style="dim"))
    if (line := verdict(task)) is not None:
        console.print(safe(line, "bold"))


def _metric(metric: MetricDifference) -> list[str | Text]:
    style = "bold" if metric.is_clear else ""
    low, high = metric.difference.low, metric.difference.high
    return [
        Text(metric.name, style=style),
        f"{metric.first.value:.2f}",
        f"{metric.second.value:.2f}",
        Text(f"{metric.difference.value:+.2f}", style=style),
        "-" if low != low else f"[{low:+.2f}, {high:+.2f}]",
        p_text(metric.p_value),
    ]


def _labels(console: Console, comparison: Comparison) -> None:
    labels, test = comparison.labels, comparison.label_test
    console.print()
    if labels.sentences:
        kappa = "undefined" if labels.kappa is None else f"{labels.kappa:.3f}"
        console.print(
            f"labels   {labels.equal:,} of {labels.sentences:,} sentences alike, kappa {kappa};"
            f" essential {labels.essential[0]:,} in A, {labels.essential[1]:,} in B"
        )
    if test is not None:
        statistic = "-" if test.statistic is None else f"{test.statistic:.2f}"
        console.print(
            f"McNemar  {test.only_first:,} sentences right in A alone, {test.only_second:,} in B alone, in"
            f" {test.cases:,} cases; clustered by case: chi2 {statistic}, p"
            f" {p_text(test.p_value, equals=True)}; ignoring clusters, exact: p"
            f" {p_text(test.p_ignoring_clusters, equals=True)}"
        )


def _cases(console: Console, title: str, changes: Sequence[CaseChange], rows: int) -> None:
    if not changes:
        return
    console.print()
    console.print(Text(f"{title}: {len(changes):,} cases, by strict F1", style="bold"))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("case", overflow="fold")
    for name in ("A", "B", "B - A"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("sentences", overflow="fold")
    for change in changes[:rows]:
        assert change.f1 is not None
        table.add_row(
            safe(change.case_id),
            f"{change.f1.first:.3f}",
            f"{change.f1.second:.3f}",
            f"{change.f1.gain:+.3f}",
            safe(_sentences(change)),
        )
    console.print(table)
    _rest(console, len(changes), rows)


def _sentences(change: CaseChange) -> str:
    if change.sentences is None:
        return ""
    named = change.sentences._asdict().items()
    return "; ".join(f"{name} {' '.join(ids)}" for name, ids in named if ids)


def _counts(
    console: Console, title: str, counts: Mapping[tuple[str, str], int], cases: int, rows: int
) -> None:
    if not counts:
        return
    console.print()
    console.print(Text(f"{title}: {sum(counts.values()):,} of {cases:,} cases changed", style="bold"))
    for (first, second), count in list(counts.items())[:rows]:
        if first or second:
            console.print(safe(f"{count:6,}  A: {first or '-'}  |  B: {second or '-'}"))
        else:
            console.print(f"{count:6,}  the same steps, in another order or number")
    _rest(console, len(counts), rows)


def _settings(console: Console, comparison: Comparison, rows: int) -> None:
    console.print()
    if not comparison.settings:
        console.print("settings  no difference is recorded")
        return
    table = Table("settings that differ", "A", "B", box=None, pad_edge=False, header_style="bold")
    for setting in comparison.settings[:rows]:
        table.add_row(*map(safe, setting))
    console.print(table)
    _rest(console, len(comparison.settings), rows)


def _usage(console: Console, comparison: Comparison) -> None:
    console.print()
    for name, usage in zip("AB", comparison.usage, strict=True):
        console.print(
            f"used in {name}  {usage.calls:,} calls, {usage.input_tokens:,} tokens read,"
            f" {usage.output_tokens:,} written"
        )


def _rest(console: Console, count: int, rows: int) -> None:
    if count > rows:
        console.print(Text(f"... and {count - rows:,} more: --rows {count} shows all", style="dim"))


def _next(
    comparison: Comparison, gained: Sequence[CaseChange], lost: Sequence[CaseChange], page: Path | None
) -> Iterator[str]:
    if not comparison.tasks:
        yield "No key: with --key KEY come scores with intervals, tests, and the cases that gained or lost."
    first, second = comparison.first.name, comparison.second.name
    moved = [*lost, *gained] or [change for change in comparison.changes if change.added or change.removed]
    if page is None:
        yield f"next  evigraph compare {first} {second} --html compare.html"
    else:
        yield f"page  {page}"
    if moved:
        yield f"next  evigraph show {second} {moved[0].case_id}"
