"""From the finished jobs of a study to its tables and their captions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cases.files import json_bytes, write_atomically
from cases.texts import plural
from evals.pages.page import FEW_CASES
from evals.pages.plots import standalone
from evals.rankings.scores import Curve, curves_plot, read_curve
from evals.studies.data import HELD_OUT, TUNING, domain_set
from evals.studies.definition import TableName
from evals.studies.figures import Scored, SetScores
from evals.studies.jobs import Job, Plan, cases_file, scores_file
from evals.studies.measures import read_cases, read_scores
from evals.studies.render import as_csv, as_markdown, as_object, as_page
from evals.studies.tables import StudyTable, make_table

_NOTES: Mapping[TableName, str] = {
    "tamu-1": (
        "Strict alone: data without supplementary labels have no lenient columns. BM25, last three, random"
        " (the best three) and all have their own cut-off, since their scores are no probabilities; BM25"
        " takes a tuned k where the others do."
    ),
    "tamu-2": "Micro precision, recall and F1.",
    "abridge-2": (
        "Corpus F-score: all decisions on all sentences together. One threshold for all queries; a query may"
        " have no evidence. BM25 takes three."
    ),
    "abridge-3": (
        "F-scores of all sentences together. One threshold for all queries, from the tuning part of the"
        " domain that is trained on."
    ),
    "abridge-5": (
        "Precision, recall and F of characters, pooled. Noise in the test queries alone: each token dropped"
        " with p = 0.1, swapped with one of the next two with p = 0.1, each query joined with the next of its"
        " document with p = 0.1 (the paper gives no rates). Human agreement is not measured."
    ),
    "abridge-9": (
        "Corpus F-score: all decisions on all sentences together. A row without an addition has LSTM."
    ),
}


def caption(table: TableName, plan: Plan) -> str:
    """Data, backbone, parts, seeds, and what is special in the table."""
    sentences = [plan.study.about.strip(), *_training(table, plan), _parts(table, plan), _NOTES[table]]
    if table == "abridge-3":
        sentences.append(_domains(plan))
    sentences.append(_intervals(plan))
    return " ".join(filter(None, sentences))


def _training(table: TableName, plan: Plan) -> list[str]:
    rows = [plan.study.rows[name] for name in plan.study.tables[table]]
    jobs = [job for job in plan.jobs if job.row in {plan.owner[name] for name in plan.study.tables[table]}]
    recipes = [job.recipe for job in jobs if job.recipe is not None]
    if not recipes:
        return []
    backbones = ", ".join(sorted({Path(recipe.model.encoder).name for recipe in recipes}))
    epochs = "/".join(map(str, sorted({recipe.epochs for recipe in recipes})))
    counts = "/".join(map(str, sorted({plan.trained_on[name] for name in plan.study.tables[table]})))
    found = [f"Backbone {backbones}, epochs {epochs}, {counts} training examples."]
    pretrained = {len(job.pretraining) for job in jobs if job.pretraining}
    if any(row.pretrain for row in rows) and pretrained:
        passes = plan.study.pretraining.epochs
        found.append(
            f"++: before that {passes} epoch{'s' * (passes > 1)} over"
            f" {plural(max(pretrained), 'example')} of the"
            " pre-training data."
        )
    return found


def _parts(table: TableName, plan: Plan) -> str:
    study = plan.study
    sentence = (
        f"Parts by group, equal for all rows and seeds: {study.split.held_out:.0%} of the groups held out for"
        f" these figures ({plural(plan.counts[HELD_OUT], 'case')}), {study.split.tuning:.0%} of the"
        f" rest for the choice of epoch and cut-off ({plural(plan.counts[TUNING], 'case')})."
    )
    if plan.seen_documents and table != "abridge-3":
        sentence += (
            f" {plan.seen_documents} held-out cases are on documents that other queries were trained on."
        )
    return sentence


def _domains(plan: Plan) -> str:
    sizes = ", ".join(f"{name} {plan.counts[domain_set(name)]}" for name in plan.study.domains)
    sentence = f"Cases: {sizes}."
    own = [name for name, domain in plan.study.domains.items() if domain.of == "pretrain"]
    if own and any(row.pretrain for row in plan.study.rows.values()):
        sentence += (
            f" Of the collection of the pre-training data (other articles): {', '.join(own)};"
            " there ++ is no pure shift of domain."
        )
    return sentence


def _intervals(plan: Plan) -> str:
    seeds = ", ".join(map(str, plan.study.seeds))
    spread = "brackets: 95 % t-intervals over seeds" if len(plan.study.seeds) > 1 else "no intervals"
    return (
        f"Means over seeds {seeds}; {spread}; seeds change weights and order. Differences: in"
        " the headline column, of counts summed over seeds; p: paired randomisation test of that over"
        " groups of cases."
    )


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
    scored = _read(plan)
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


def _read(plan: Plan) -> Scored:
    """Scores by row. Rows that share their jobs share their scores."""
    found: dict[str, dict[int, SetScores]] = {}
    for job in plan.jobs:
        sets = {
            name: read_scores(scores_file(job.scores, name)) for name in job.sets if name not in job.missing
        }
        found.setdefault(job.row, {})[job.seed] = sets
    return {row: found.get(owner, {}) for row, owner in plan.owner.items()}


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
