"""A study's outcome and tables for people and for programs."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from cli.terminal import output, safe
from evals.experiments.render import cell_text
from evals.studies.jobs import Plan
from evals.studies.render import as_object as table_object
from evals.studies.render import comparison_texts, row_title
from evals.studies.report import Report
from evals.studies.run import Outcome
from evals.studies.tables import Block, StudyTable, interval_of, labels_compared


def print_study(plan: Plan, outcome: Outcome, made: Report) -> None:
    """Print the headline of each table, how the trainings ended, and where the tables are."""
    console = output()
    for table in made.tables:
        for block in table.blocks:
            _print_block(table, block)
    console.print()
    for note in made.notes:
        console.print(safe(note))
    finished = sum(not job.missing for job in plan.jobs)
    console.print(
        f"{finished} of {len(plan.jobs)} trainings and baselines finished: {outcome.done} now,"
        f" {outcome.skipped} before, {len(outcome.failed)} failed"
    )
    for name, reason in outcome.failed.items():
        console.print(safe(f"failed  {name}: {reason}"), soft_wrap=True)
    for title, path in (("tables", made.markdown), ("", made.csv), ("", made.json), ("page", made.page)):
        console.print(safe(f"{title:8}{path}"), soft_wrap=True)
    if made.curves is not None:
        console.print(safe(f"{'curves':8}{made.curves}"), soft_wrap=True)


def _print_block(table: StudyTable, block: Block) -> None:
    title = f"{table.title}{f': {block.title}' if block.title else ''}"
    shown = Table(box=None, pad_edge=False)
    shown.add_column("", overflow="fold")
    shown.add_column(safe(block.headline), justify="right")
    for label in labels_compared(block):
        shown.add_column(safe(f"vs {label}"), justify="right")
    for row in block.rows:
        shown.add_row(
            safe(row_title(row)),
            safe(cell_text(interval_of(block, row, block.headline), table.unit)),
            *(safe(text) for text in comparison_texts(block, row, table.unit)),
        )
    output().print()
    output().print(safe(title), soft_wrap=True)
    output().print(shown)


def as_object(plan: Plan, outcome: Outcome, made: Report) -> dict[str, Any]:
    """One object for programs; values of tables are in points of 100."""
    return {
        "finished": [job.name for job in plan.jobs if not job.missing],
        "unfinished": [job.name for job in plan.jobs if job.missing],
        "failed": outcome.failed,
        "done_now": outcome.done,
        "skipped": outcome.skipped,
        "tables": [table_object(table) for table in made.tables],
        "notes": list(made.notes),
        "markdown": str(made.markdown),
        "csv": str(made.csv),
        "json": str(made.json),
        "page": str(made.page),
        "curves": None if made.curves is None else str(made.curves),
    }
