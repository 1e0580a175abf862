"""From the finished cells of an experiment to its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cases.submissions.archehr import Prediction
from cases.texts import plural
from evals.analysis.sweep import chosen_at, labelled, thresholds_by_others, tune
from evals.analysis.voted_cases import evidence_settings, read_voted_cases
from evals.experiments.definition import Experiment, Table
from evals.experiments.evidence import EvidenceRow, evidence_row, make_evidence_table
from evals.experiments.ranker_tables import make_ranker_tables
from evals.experiments.rankers import HELD_OUT, TUNING, RankerPlan
from evals.experiments.render import as_csv, as_markdown, as_page
from evals.experiments.run import Cells
from evals.experiments.tables import TASK_OF, PaperTable, make_score_tables, make_table
from evals.metrics.text_metric import MetricResources
from evals.pages.page import FEW_CASES
from evals.run_scores import score_on
from evals.scoring.gold import GoldCase, ScoringError, gold_of_run, predictions
from evals.scoring.score import ArchehrScores, score, score_predictions
from evals.scoring.scored_task import ScoredTask
from evals.scoring.tasks import TASKS
from runs.record.folder import RunFolder
from storage.files import write_atomically


@dataclass(frozen=True, slots=True)
class ExperimentReport:
    """An experiment's tables, their notes, and their paths."""

    tables: tuple[PaperTable, ...]
    notes: tuple[str, ...]
    markdown: Path
    csv: Path
    page: Path


def report(
    experiment: Experiment,
    cells: Cells,
    out: Path,
    resources: MetricResources,
    rankers: RankerPlan | None = None,
) -> ExperimentReport:
    """Score every cell that a table names, make the tables and write them.

    Voting cells have a further row in table 3: with the threshold that was tuned on the other split, or,
    where there is none, for each case on all other cases.

    Raises:
        InputError: A file cannot be read or written.
    """
    tables: list[PaperTable] = []
    notes_of_rows: list[str] = []
    for table, names in experiment.tables.items():
        runs = {name: cells.reported[name] for name in names if name in cells.reported}
        match table:
            case "scores":
                rows = _all_scores(runs, experiment.key, resources, notes_of_rows)
                tables += make_score_tables(rows)
            case "evidence":
                tables += _evidence_tables(runs, resources, notes_of_rows)
            case "1" | "2" | "abridge-2" | "abridge-3" | "abridge-5" | "abridge-9":
                assert rankers is not None, "definitions check that such a table names rankers"
                tables += make_ranker_tables(table, names, rankers, rankers.scores())
            case _:
                scored = _scored(table, runs, cells.tuning, resources, notes_of_rows)
                tables += filter(None, [make_table(table, scored)])
                notes_of_rows += [note for scores in scored.values() for note in scores.notes]
    notes = (*_notes(experiment, cells, tables, rankers), *dict.fromkeys(notes_of_rows))
    written = ExperimentReport(
        tables=tuple(tables),
        notes=notes,
        markdown=out / "tables.md",
        csv=out / "tables.csv",
        page=out / "tables.html",
    )
    write_atomically(written.markdown, [as_markdown(tables, notes).encode()])
    write_atomically(written.csv, [as_csv(tables).encode()])
    write_atomically(written.page, [as_page(tables, notes).encode()])
    return written


def _all_scores(
    runs: Mapping[str, RunFolder], keys: Sequence[Path], resources: MetricResources, notes: list[str]
) -> dict[str, list[ScoredTask]]:
    """Every task of each row; adds to `notes`."""
    rows: dict[str, list[ScoredTask]] = {}
    for name, run in runs.items():
        rows[name] = score_on(run, gold_of_run(run, keys), resources)
        notes += [note for task in rows[name] for note in task.notes]
        if not rows[name]:
            notes.append(f"{name} is left out of table scores: the run and its key share nothing to score.")
    return rows


def _scored(
    table: Table,
    runs: Mapping[str, RunFolder],
    tuning: Mapping[str, RunFolder],
    resources: MetricResources,
    notes: list[str],
) -> dict[str, ArchehrScores]:
    """Rows by name, scored as `evigraph score` scores their runs; omissions are added to `notes`."""
    rows: dict[str, ArchehrScores] = {}
    for name, run in runs.items():
        gold = gold_of_run(run)
        try:
            (rows[name],) = score_predictions(list(predictions(run)), gold, TASK_OF[table], resources)
            if table == "3":
                rows |= _tuned(name, run, gold, tuning.get(name))
        except ScoringError as error:
            # Such as a cell that stops after the evidence, in a table of answers.
            notes.append(f"{name} is left out of table {table}: {error}.")
    return rows


def _evidence_tables(
    runs: Mapping[str, RunFolder], resources: MetricResources, notes: list[str]
) -> Iterator[PaperTable]:
    """The table of all scorable cells, if there are any; notes on the others are added to `notes`."""
    rows: dict[str, EvidenceRow] = {}
    for name, run in runs.items():
        try:
            rows[name] = evidence_row(run, resources)
        except ScoringError as error:
            notes.append(f"{name} is left out of table evidence: {error}.")
    # What lenient means is of no interest here.
    notes += [note for row in rows.values() for note in row.scores.notes if note not in TASKS["2026-2"].notes]
    if rows and (made := make_evidence_table(rows, gold_of_run(runs[next(iter(rows))]))) is not None:
        yield made


def _tuned(
    name: str, run: RunFolder, gold: Mapping[str, GoldCase], tuning: RunFolder | None
) -> dict[str, ArchehrScores]:
    """The row of a voting cell with its threshold tuned; none for a cell without a choice of thresholds."""
    votes = evidence_settings(run).all_votes
    cases = labelled(read_voted_cases(run, gold, with_votes=False))
    if votes == 1 or len(cases) < 2:
        return {}
    if tuning is None:
        picks, label = thresholds_by_others(cases, votes), f"{name}, T of each case tuned on the others"
    else:
        others = labelled(read_voted_cases(tuning, gold_of_run(tuning), with_votes=False))
        if not others:
            return {}
        best = tune(others, votes)
        picks = dict.fromkeys((case.case_id for case in cases), best)
        label = f"{name}, T = {best} tuned on the other split"
    chosen = {case.case_id: sorted(chosen_at(case, picks[case.case_id], votes)) for case in cases}
    made = [Prediction(case_id, evidence=tuple(ids)) for case_id, ids in chosen.items()]
    return {label: score("2026-2", made, gold)}


def _notes(
    experiment: Experiment, cells: Cells, tables: list[PaperTable], rankers: RankerPlan | None
) -> list[str]:
    notes = [experiment.about.strip()] if experiment.about else []
    smallest = min((table.cases for table in tables), default=0)
    if 0 < smallest < FEW_CASES:
        notes.append(
            f"Few cases ({smallest}): intervals are wide, and the best row of a table is partly luck."
        )
    wanted = {name for names in experiment.tables.values() for name in names}
    trained = {one.name for one in rankers.rankers} if rankers is not None else set()
    missing = sorted(wanted - cells.reported.keys() - trained)
    if missing:
        notes.append(f"Not finished, and left out: {', '.join(missing)}.")
    if rankers is not None:
        sets = rankers.sets
        notes.append(
            f"Rankers: {plural(len(rankers.train), 'training example')}, {len(sets[TUNING])} for the choice"
            f" of epoch and cut-off, {len(sets[HELD_OUT])} held out."
        )
        if rankers.unfinished:
            notes.append(f"Not finished, and counted in no mean: {', '.join(rankers.unfinished)}.")
    for name, run in cells.reported.items():
        counts = run.manifest.counts
        for count, state in ((counts.failed, "failed"), (counts.waiting, "waiting")):
            if count:
                notes.append(f"{name}: {plural(count, 'case')} {state}, counted in no row.")
    return notes
