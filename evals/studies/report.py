"""From the finished jobs of a study to its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cases.files import json_bytes, write_atomically
from evals.pages.page import FEW_CASES
from evals.pages.plots import standalone
from evals.rankings.curves import Curve, curves_plot, read_curve
from evals.studies.captions import caption
from evals.studies.data import TUNING
from evals.studies.figures import Scored, SetScores, stacked_scores
from evals.studies.jobs import Job, Plan, cases_file, scores_file
from evals.studies.render import as_csv, as_markdown, as_object, as_page
from evals.studies.stored import LabelledCase, read_cases, read_scores
from evals.studies.tables import StudyTable, make_table

_CURVE = "curve.jsonl"


@dataclass(frozen=True, slots=True)
class StudyReport:
    """A study's tables, what a reader must know of them, and where they stand."""

    tables: tuple[StudyTable, ...]
    notes: tuple[str, ...]
    markdown: Path
    csv: Path
    json: Path
    page: Path
    curves: Path | None


def report(plan: Plan) -> StudyReport:
    """Make the tables of what is finished and write them; no model is opened.

    Raises:
        StudyError: Stored scores are damaged.
        InputError: A file cannot be written.
    """
    cases = {name: read_cases(cases_file(plan.out, name)) for name in plan.counts if name != "train"}
    scored = _read(plan, cases[TUNING])
    tables = tuple(
        table
        for name in plan.study.tables
        if (table := make_table(name, plan.study, cases, scored, caption(name, plan))) is not None
    )
    notes = _notes(plan)
    drawn = _curves(plan)
    made = StudyReport(
        tables=tables,
        notes=notes,
        markdown=plan.out / "tables.md",
        csv=plan.out / "tables.csv",
        json=plan.out / "tables.json",
        page=plan.out / "page.html",
        curves=plan.out / "curves.svg" if drawn else None,
    )
    write_atomically(made.markdown, [as_markdown(tables, notes).encode()])
    write_atomically(made.csv, [as_csv(tables).encode()])
    write_atomically(made.json, [json_bytes([as_object(table) for table in tables], indent=2)])
    write_atomically(made.page, [as_page(tables, notes, drawn).encode()])
    if made.curves is not None and drawn is not None:
        write_atomically(made.curves, [standalone(drawn).encode()])
    return made


def _read(plan: Plan, tuning: Mapping[str, LabelledCase]) -> Scored:
    """Scores by row. Rows that share their jobs share their scores; a stack is made of those of others."""
    found: dict[str, dict[int, SetScores]] = {}
    for job in plan.jobs:
        sets = {
            name: read_scores(scores_file(job.scores, name)) for name in job.sets if name not in job.missing
        }
        found.setdefault(job.row, {})[job.seed] = sets
    scored = {row: found.get(owner, {}) for row, owner in plan.owner.items()}
    return scored | {
        name: stacked_scores(tuning, *(scored[part] for part in row.stack))
        for name, row in plan.study.rows.items()
        if row.stack is not None
    }


def _notes(plan: Plan) -> tuple[str, ...]:
    notes = []
    unfinished = [job.name for job in plan.jobs if job.missing]
    if unfinished:
        notes.append(
            f"{len(unfinished)} of {len(plan.jobs)} trainings and baselines are not finished, and count in no"
            f" mean: {'; '.join(unfinished)}."
        )
    if plan.counts["held-out"] < FEW_CASES:
        notes.append(f"{plan.counts['held-out']} held-out cases are few: the best row is partly luck.")
    return tuple(notes)


def _curves(plan: Plan) -> str | None:
    found: dict[str, list[Curve]] = {}
    for job in plan.jobs:
        curve = None if job.recipe is None else read_curve(job.ranker / _CURVE)
        if curve is not None:
            found.setdefault(_label(plan, job), []).append(curve)
    return curves_plot(found, "curves") if found else None


def _label(plan: Plan, job: Job) -> str:
    """The row's label, with its name where rows share a label."""
    labels = [row.label or name for name, row in plan.study.rows.items()]
    label = plan.study.rows[job.row].label or job.row
    return f"{label} [{job.row}]" if labels.count(label) > 1 else label
