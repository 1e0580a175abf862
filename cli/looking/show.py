"""`evigraph show`."""

from __future__ import annotations

import contextlib
import math
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from cli.options import CaseArgument, HtmlOption, RunFolderArgument, WorstFirstOption
from cli.terminal import WIDE, Result, output, plural, print_line, safe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from cli.summary import Summary
    from runs.record.folder import Line, RunFolder

_COLOURS = {"done": "green", "failed": "red", "waiting": "yellow"}


def show(
    run: RunFolderArgument,
    case: CaseArgument = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only failed cases.")] = False,
    impaired: Annotated[
        bool, typer.Option("--impaired", help="Only cases that ended although a request of theirs failed.")
    ] = False,
    rows: Annotated[int, typer.Option(min=1, help="Most cases to list.")] = 50,
    worst_first: WorstFirstOption = False,
    calls: Annotated[
        bool, typer.Option("--calls", help="With CASE: every prompt and reply as well.")
    ] = False,
    html: HtmlOption = None,
    texts: Annotated[
        bool, typer.Option("--texts", help="With --html: notes, questions and answers as well.")
    ] = False,
) -> Result:
    """Show a run's cases, or what every node decided on one case.

    With --html the scores, prompts, models, cost and worst cases become one file to show a colleague. It
    opens offline, and has ids, labels and scores only.

    Example: evigraph show out/2026-11-21T10-15-tamu-ab12 101
    """
    _check(html is not None, texts=texts, one_case=case is not None, chosen=failed or impaired or worst_first)
    if html is not None:
        return _one_page(run, html, texts=texts, rows=rows)
    from cli.looking.show_case import show_case
    from runs.record.audit import record_if_possible
    from runs.record.folder import RunFolder

    folder = RunFolder(run)
    if case is None:
        return _of_run(folder, only_failed=failed, only_impaired=impaired, rows=rows, worst_first=worst_first)
    line = folder.require_case(case)
    record_if_possible(run, "opened", case=case, command="show")
    return Result(
        lambda: {"case": line, "trace": folder.trace(case)},
        lambda: show_case(folder, case, with_calls=calls),
    )


def _check(html: bool, *, texts: bool, one_case: bool, chosen: bool) -> None:
    """Refuse options that say nothing together.

    Raises:
        BadParameter: Names them.
    """
    refused = {
        "--texts needs --html FILE": texts and not html,
        "a page shows the whole run: leave out CASE": html and one_case,
        "a page lists the worst cases first: leave out --failed, --impaired and --worst-first": html
        and chosen,
    }
    for words, wrong in refused.items():
        if wrong:
            raise typer.BadParameter(words)


def _one_page(run: Path, html: Path, *, texts: bool, rows: int) -> Result:
    from viewer.one_page import write_one_page

    made = write_one_page(run, html, texts=texts, most=rows)

    def print_page() -> None:
        left_out = f"; {made.left_out:,} more: --rows {made.cases + made.left_out}" if made.left_out else ""
        print_line(f"page  {html}")
        print_line(f"{plural(made.cases, 'case')}, {made.bytes / 1e3:,.0f} kB{left_out}")
        if texts:
            print_line("this page holds texts of cases: treat it like the cases themselves", wrap=True)

    return Result(
        {"html": str(html), "cases": made.cases, "left_out": made.left_out, "texts": texts}, print_page
    )


def _of_run(
    folder: RunFolder, *, only_failed: bool, only_impaired: bool, rows: int, worst_first: bool
) -> Result:
    """Up to `rows` cases, and the summary."""
    from cli.summary import summarise
    from graph.system import find_system
    from runs.record.audit import record_if_possible
    from runs.record.folder import is_impaired
    from runs.record.purged import purged_of

    flags = find_system(folder.manifest.system).impairments
    lines: Iterator[Line] = (
        line
        for line in folder.cases()
        if (line["status"] == "failed" or not only_failed) and (not only_impaired or is_impaired(line, flags))
    )
    summary = summarise(folder)
    title, scores = _scores_of_cases(summary)
    if worst_first:
        # Cases without a score come last.
        lines = iter(sorted(lines, key=lambda line: scores.get(line["case_id"], ("", math.inf))[1]))
    shown = list(islice(lines, rows))
    purged = purged_of(folder.path)

    def content() -> dict[str, Any]:
        # Its rows have the answers.
        record_if_possible(folder.path, "opened", cases=len(shown), command="show")
        also = {} if purged is None else {"purged": {"at": purged.at, "cases": len(purged.cases)}}
        scored = [
            line | {"score": scores[line["case_id"]][1]} if line["case_id"] in scores else line
            for line in shown
        ]
        return {**summary.as_json(), **also, "rows": scored}

    def print_run() -> None:
        _print_cases(folder, shown, title, scores)
        if rest := sum(1 for _ in lines):
            print_line(f"... and {rest} more: --rows {rows + rest} shows all")
        print_line()
        if purged is not None:
            print_line(purged.words, "yellow", wrap=True)
        summary.print()

    return Result(content, print_run)


def _scores_of_cases(summary: Summary) -> tuple[str, dict[str, tuple[str, float]]]:
    """The heading of a score, and of each scored case its score as written and as a number."""
    from evals.run_scores import score_on
    from evals.scoring.gold import gold_of_run
    from storage.errors import InputError

    scored = summary.scored
    if scored is None and summary.answer_key:
        # The inputs may have moved since.
        with contextlib.suppress(InputError):
            scored = next(iter(score_on(summary.folder, gold_of_run(summary.folder))), None)
    if scored is None:
        return "", {}
    found = {id_: (scored.form.number(value), value) for id_, value in scored.by_case().items()}
    name = scored.case_score or scored.headline
    return "F1" if name.endswith("f1") else name.replace("_", " "), found


def _print_cases(
    folder: RunFolder, shown: Sequence[Line], title: str, scores: Mapping[str, tuple[str, float]]
) -> None:
    from graph.system import find_system

    console = output()
    system = find_system(folder.manifest.system)
    declared = {name: one.cell for name, one in system.columns.items() if any(map(one.cell, shown))}
    columns = _COLUMNS | {name: cell for name, cell in declared.items() if name not in _COLUMNS}
    if declared:
        # For a system with its own columns, a note's may be empty.
        columns = {name: cell for name, cell in columns.items() if any(map(cell, shown))}
    narrow = console.width < WIDE
    if narrow and declared:
        columns = {name: cell for name, cell in columns.items() if name not in _ONLY_WIDE}
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("case", min_width=4, overflow="fold")
    table.add_column("status", min_width=6, no_wrap=True)
    if scores:
        table.add_column(title, justify="right", no_wrap=True)
    for name in columns:
        wide = name in declared or name == "intent"
        table.add_column(name, max_width=20 if narrow and wide else None, no_wrap=True, overflow="ellipsis")
    table.add_column("notes", overflow="fold", ratio=1)
    for line in shown:
        cells = (safe(cell(line) or "-") for cell in columns.values())
        status = safe(line["status"], _COLOURS[line["status"]])
        score = [scores.get(line["case_id"], ("-", 0.0))[0]] if scores else []
        table.add_row(safe(line["case_id"]), status, *score, *cells, safe(_notes(line)))
    console.print(table)


def _notes(line: Line) -> str:
    error = line["error"]
    return f"{error['class']}: {error['message']}" if error else ", ".join(line["flags"]).replace("_", " ")


def _intent(line: Line) -> str:
    return (line.get("intent") or {}).get("primary") or ""


def _essential(line: Line) -> str:
    essential = sum(label == "essential" for label in line["labels"].values())
    return f"{essential} of {len(line['labels'])}" if line["labels"] else ""


def _agreement(line: Line) -> str:
    """Share of sentences on which all votes agree."""
    from nodes.evidence.disagreement import disagreement

    counts, votes = line.get("vote_counts"), line.get("usable_votes")
    return f"{1 - disagreement(counts, votes):.0%}" if counts and votes else ""


def _words(line: Line) -> str:
    answer = line.get("answer")
    return str(len(answer.split())) if answer else ""


_COLUMNS: dict[str, Callable[[Line], str]] = {
    "intent": _intent,
    "essential": _essential,
    "agree": _agreement,
    "words": _words,
}
"""Columns of notes and answers in lists of cases."""

_ONLY_WIDE = frozenset({"intent", "agree", "words"})
"""Left out of a narrow list next to columns of the system, as case and score would have to give way."""
