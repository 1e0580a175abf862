"""A comparison of two runs for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.table import Table as Grid

from cases.texts import plural
from cli.terminal import output, print_line, print_table, safe
from evals.compare.changes import CaseChange, by_gain, intent_changes, route_changes
from evals.compare.comparison import Comparison
from evals.compare.differences import TaskDifferences, verdict
from evals.compare.matrix import Matrix
from evals.compare.outcomes import in_words
from evals.compare.render import metric_table, setting_table
from evals.pages.tables import Column, Table


def print_comparison(comparison: Comparison, *, rows: int, page: Path | None) -> None:
    """Scores, cases, changes and cautions, at most `rows` rows of each list."""
    _runs(comparison)
    for task in comparison.tasks:
        _scores(comparison, task)
    _labels(comparison)
    gained, lost = by_gain(comparison.changes)
    _cases("gained", gained, rows)
    _cases("lost", lost, rows)
    _counts("routes", route_changes(comparison.changes), len(comparison.changes), rows)
    _counts("intents", intent_changes(comparison.changes), len(comparison.changes), rows)
    _settings(comparison, rows)
    _usage(comparison)
    for caution in comparison.cautions:
        print_line(f"! {caution}", "yellow", wrap=True)
    for line in _next(comparison, gained, lost, page):
        print_line(line, wrap=True)


def print_matrix(matrix: Matrix, *, rows: int, worst_first: bool, page: Path | None) -> None:
    """Runs, what differs between them, and at most `rows` cases."""
    print_table(matrix.runs_table(), below=True)
    if matrix.scores:
        print_line(f"score: {matrix.score_name}, over cases scored in all runs", "dim")
    for letter, found in matrix.differences():
        print_line(f"{letter} differs from A in {'; '.join(found) or 'no recorded setting'}", wrap=True)
    print_line()
    table = matrix.cases_table(worst_first=worst_first, most=rows)
    print_table(table, below=True)
    _rest(len(matrix.case_ids), rows)
    if page is not None:
        print_line(f"page  {page}")


def _runs(comparison: Comparison) -> None:
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, run in (("A", comparison.first), ("B", comparison.second)):
        models = dict.fromkeys(model.name for model in run.manifest.models.values())
        grid.add_row(name, safe(f"{run.name}  ({run.manifest.system}; {', '.join(models) or 'no model'})"))
    changed = sum(change.answer_changed for change in comparison.changes)
    grid.add_row("cases", f"{len(comparison.changes):,} done in both; {plural(changed, 'answer')} changed")
    output().print(grid)


def _scores(comparison: Comparison, task: TaskDifferences) -> None:
    level = f"{comparison.judged_by.level:.4g}"
    print_line()
    print_line(f"{task.task}: {plural(task.cases, 'case')} scored in both; intervals at {level}", "bold")
    print_table(metric_table(task, with_sides=False))
    rest = sum(not one.main for one in task.metrics)
    if rest:
        print_line(f"{rest} more metrics: --json or --html FILE", "dim")
    print_line(verdict(task), "bold", wrap=True)


def _labels(comparison: Comparison) -> None:
    labels = comparison.labels
    print_line()
    if labels.sentences:
        kappa = "undefined" if labels.kappa is None else f"{labels.kappa:.3f}"
        print_line(
            f"labels   {labels.equal:,} of {plural(labels.sentences, 'sentence')} alike, kappa {kappa};"
            f" essential {labels.essential[0]:,} in A, {labels.essential[1]:,} in B",
            wrap=True,
        )


def _cases(title: str, changes: Sequence[CaseChange], rows: int) -> None:
    if not changes:
        return
    heads = [Column("case", "text"), *(Column(name, wraps=False) for name in ("A", "B", "B - A"))]
    shown = []
    for change in changes[:rows]:
        assert change.f1 is not None
        named = () if change.sentences is None else change.sentences._asdict().items()
        sentences = "; ".join(f"{name} {' '.join(ids)}" for name, ids in named if ids)
        both = (f"{100 * one:.1f}" for one in (change.f1.first, change.f1.second))
        shown.append([change.case_id, *both, f"{100 * change.f1.gain:+.1f}", sentences])
    print_line()
    print_line(f"{title}: {plural(len(changes), 'case')}, by strict F1", "bold")
    print_table(Table([*heads, Column("sentences", "text")], shown))
    _rest(len(changes), rows)


def _counts(title: str, counts: Mapping[tuple[str, str], int], cases: int, rows: int) -> None:
    if not counts:
        return
    print_line()
    print_line(f"{title}: {sum(counts.values()):,} of {plural(cases, 'case')} changed", "bold")
    for (first, second), count in list(counts.items())[:rows]:
        if first or second:
            print_line(f"{count:6,}  A: {first or '-'}  |  B: {second or '-'}", wrap=True)
        else:
            print_line(f"{count:6,}  the same steps, in another order or number")
    _rest(len(counts), rows)


def _settings(comparison: Comparison, rows: int) -> None:
    print_line()
    if not comparison.settings:
        print_line("settings  no difference is recorded")
        return
    print_line(f"A and B differ in {in_words(comparison.settings)}", wrap=True)
    print_table(setting_table(comparison.settings, "settings that differ", rows))
    _rest(len(comparison.settings), rows)


def _usage(comparison: Comparison) -> None:
    print_line()
    for name, usage in zip("AB", comparison.usage, strict=True):
        print_line(
            f"used in {name}  {plural(usage.calls, 'call')}, {plural(usage.input_tokens, 'token')} read,"
            f" {usage.output_tokens:,} written",
            wrap=True,
        )


def _rest(count: int, rows: int) -> None:
    if count > rows:
        print_line(f"... and {count - rows:,} more: --rows {count} shows all", "dim")


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
