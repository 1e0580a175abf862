"""Runs and submissions to scored tasks, whatever their system: what can be scored, and on which cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from cases.load import find_cases, sort_keys
from cases.records import InvalidCase
from cases.submissions.archehr import Prediction, Task
from cases.submissions.bioasq import BioasqPrediction, looks_like_bioasq, read_answers
from cases.submissions.container import open_submission
from cases.submissions.task import TaskName
from cases.submissions.tasks import ARCHEHR, BIOASQ, guess_task
from cases.texts import plural
from evals.bioasq.parts import PARTS, PARTS_OF, Definitions
from evals.bioasq.scores import OURS, predictions_of_run, score_parts
from evals.metrics.text_metric import MetricResources
from evals.scoring.gold import (
    GoldCase,
    ScoringError,
    gold_of_run,
    only_cases,
    predictions,
    read_gold,
    wanted_ids,
    whole_key,
)
from evals.scoring.score import ArchehrScores, score, score_predictions
from evals.scoring.scored_task import ScoredTask
from evals.scoring.tasks import TASKS
from evals.scoring.verified_answers import VerificationScores, score_verification
from evals.verdicts.scores import score_verdicts
from graph.system import find_system
from runs.record.folder import MANIFEST, RunFolder

Family = Literal["tasks", "verdicts", "questions"]
"""Tasks of ArchEHR-QA, verdicts, or BioASQ's questions."""

FAMILIES: Mapping[str | None, Family] = {"verdict": "verdicts", "biomedical": "questions"}
_HAS_SEEN_ANSWERS = (
    "This run was shown the clinicians' answers: its scores measure the quality of weak labels and"
    " are not an entry to the task."
)

_SHAPED_BY_LABELS: tuple[Task, ...] = ("2025", "2026-2", "2026-3")
"""Tasks whose predictions are made of the run's labels."""

_NOTES = ("notes", "not_computed", "cases")


def family_of(path: Path, task: TaskName | None = None) -> Family:
    """How a run or a submission is scored."""
    if task is not None:
        return "questions" if task in BIOASQ else "tasks"
    if is_run(path):
        return FAMILIES.get(find_system(RunFolder(path).manifest.system).score, "tasks")
    return "questions" if looks_like_bioasq(path) else "tasks"


def labels_from_answers(system: str) -> bool:
    """Whether a system is shown clinicians' answers; its runs are given no key, and label what has none."""
    return "label_source" in find_system(system).results


def is_run(path: Path) -> bool:
    """Whether a path is a run folder, and no submission."""
    return path.is_dir() or (path / MANIFEST).is_file()


def score_on(
    run: RunFolder, gold: Mapping[str, GoldCase], resources: MetricResources | None = None
) -> list[ScoredTask]:
    """Score all that a run and a key share, whatever cases are not done, and the verification of its answers.

    Raises:
        InputError: A local checkpoint or index cannot be used.
    """
    scored: Sequence[ScoredTask] = ()
    match find_system(run.manifest.system).score:
        case "archehr":
            scored = score_predictions(list(predictions(run)), gold, resources=resources)
        case "verdict":
            scored = score_verdicts(run, gold)
        case "biomedical":
            scored = score_parts(gold, predictions_of_run(run))
    return [*scored, *_verification(run)]


class Asked(TypedDict, total=False):
    """What of a run or a submission is scored, and how; without a field everything, in the usual way.

    Attributes:
        keys: Key files; for a run instead of those that it recorded.
        case_files: The same.
        task: Only this task or phase.
        case_ids: Only these cases, as `1-20,34`.
        resources: Local weights and indexes.
        definitions: How BioASQ's measures are counted.
    """

    keys: Sequence[Path]
    case_files: Sequence[Path]
    task: TaskName | None
    case_ids: str | None
    resources: MetricResources | None
    definitions: Definitions


def score_run(run: RunFolder, **asked: Unpack[Asked]) -> list[ScoredTask]:
    """Score a run on one task, or on every task that it answers and its key knows of.

    Unless one task is named, the verification of its answers is the last; it needs no key.

    Raises:
        ScoringError: Nothing can be scored.
        InputError: A file cannot be used.
    """
    verified = [*_verification(run, asked.get("case_ids"))] if asked.get("task") is None else []
    try:
        scored = _score_run_by_key(run, asked)
    except ScoringError as error:
        if not verified:
            raise
        return [replace(one, notes=(*one.notes, f"Nothing else is scored. {error}")) for one in verified]
    return [*scored, *verified]


def _verification(run: RunFolder, case_ids: str | None = None) -> Iterator[VerificationScores]:
    """The verification of a run's answers, if they were verified and are among the cases."""
    found = score_verification(run)
    if found is not None and case_ids is not None:
        found = found.only(wanted_ids(case_ids))
    if found is not None and found.case_ids:
        yield found


def _score_run_by_key(run: RunFolder, asked: Asked) -> list[ScoredTask]:
    task = asked.get("task")
    family = family_of(run.path, task)
    match task:
        case "bioasq-a" | "bioasq-a+" | "bioasq-b":
            pass
        case None if family != "tasks":
            pass
        case _:
            return [*_score_archehr(run, task, asked)]
    gold = _only(gold_of_run(run, (), asked.get("case_files", ())), asked)
    if family == "questions":
        return _score_bioasq(str(run.path), gold, predictions_of_run(run), asked)
    if not (verdicts := score_verdicts(run, gold)):
        raise ScoringError(
            f"{run.path}: none of its questions is done and has a verdict in its case file. Give the file"
            " that says yes, no or unknown: --cases FILE"
        )
    return [*verdicts]


def score_submission(path: Path, **asked: Unpack[Asked]) -> list[ScoredTask]:
    """Score a submission as its official scorer does, and refuse what that refuses.

    Raises:
        ScoringError: Its cases are not those of the key, an id is unknown, or nothing can be scored.
        InputError: A file cannot be used.
    """
    task = asked.get("task")
    match task:
        case "bioasq-a" | "bioasq-a+" | "bioasq-b":
            pass
        case None if family_of(path) == "questions":
            pass
        case _:
            found = task or guess_task(open_submission(path).demand_entries(path))
            if found is None:
                fault = "its form does not tell which task it is for; name it: --task TASK"
                raise ScoringError(f"{path}: {fault}")
            return [_score_archehr_file(path, found, asked)]
    gold = _only(read_gold([], asked.get("case_files", ())), asked)
    return _score_bioasq(str(path), gold, read_answers(path), asked)


def run_scores(run: RunFolder, keys: Sequence[Path] = (), case_files: Sequence[Path] = ()) -> dict[str, Any]:
    """What `evigraph score --json` prints of a run: scores with their intervals, by family.

    Raises:
        ScoringError: Nothing can be scored.
        InputError: A case file or key cannot be read.
    """
    return scores_object(family_of(run.path), score_run(run, keys=keys, case_files=case_files))


def scores_object(
    family: Family, scored: Sequence[ScoredTask], *, worst_first: bool = False
) -> dict[str, Any]:
    """Scores for programs, under the name of their family; each with the score of every case."""
    found = [
        {
            **one.as_json(),
            "cases": {
                "score": one.case_score or one.headline,
                "values": one.by_case(worst_first=worst_first),
            },
        }
        for one in scored
    ]
    return dict(bioasq=found) if family == "questions" else {family: found}


def without_notes(scores: dict[str, Any]) -> dict[str, Any]:
    """Numbers alone."""
    return {
        name: [{key: value for key, value in one.items() if key not in _NOTES} for one in group]
        for name, group in scores.items()
    }


def flat_scores(scores: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values of `run_scores`, with their intervals, for a list."""
    for group in scores.values():
        for one in group:
            title = str(one.get("task") or one.get("part") or one.get("classes") or "")
            # Measures of BioASQ are 0 to 1, all others 0 to 100.
            digits = 4 if "groups" in one else 2
            for kind, part in one.get("groups", {"all": one}).items():
                above = title if kind == "all" else f"{title} {kind}"
                intervals = part.get("intervals") or {}
                for name, value in {**part.get("values", {}), **part.get("extra", {})}.items():
                    ends = ", ".join(f"{end:.{digits}f}" for end in intervals.get(name) or ())
                    yield f"{above} {name}".strip(), f"{value:.{digits}f}" + (f" [{ends}]" if ends else "")


def _score_archehr(run: RunFolder, task: Task | None, asked: Asked) -> list[ArchehrScores]:
    """A case that failed or was not run is not an empty prediction: it leaves no overall score."""
    key = whole_key(run, asked.get("keys", ()), asked.get("case_files", ()))
    gold = _some_of(key.gold, asked)
    scored = score_predictions(list(predictions(run)), gold, task, asked.get("resources"))
    if not scored:
        needed = "; ".join(f"{name}: {TASKS[name].needs}" for name in sorted(TASKS))
        raise ScoringError(
            f"{run.path}: the run and its key share nothing to score. Give a key: --key KEY ({needed})"
        )
    if labels_from_answers(run.manifest.system):
        scored = [replace(one, overall=None, notes=(*one.notes, _HAS_SEEN_ANSWERS)) for one in scored]
    case_ids = asked.get("case_ids")
    wanted = key.unreadable if case_ids is None else wanted_ids(case_ids)
    unreadable = [id_ for id_ in key.unreadable if id_ in wanted]
    missing = [() if key.has_keys and not TASKS[one.task].in_case_files else unreadable for one in scored]
    return [
        _naming_missing(_noting_reviewers(one, run), run, its)
        for one, its in zip(scored, missing, strict=True)
    ]


def _score_archehr_file(path: Path, task: Task, asked: Asked) -> ArchehrScores:
    made = ARCHEHR[task].read(path)
    keys, case_files = sort_keys(asked.get("keys", ()), asked.get("case_files", ()))
    in_case_files = TASKS[task].in_case_files and bool(case_files)
    gold = _some_of(read_gold([] if in_case_files else keys, case_files), asked)
    if asked.get("case_ids") is not None:
        made = [one for one in made if one.case_id in gold]
    _demand_same_cases(path, made, gold, case_files)
    return score(task, made, gold, asked.get("resources"))


def _naming_missing(scored: ArchehrScores, run: RunFolder, unreadable: Sequence[str]) -> ArchehrScores:
    """With the cases that cannot be read and may well be labelled, and why cases are missing."""
    unscored = tuple(sorted({*scored.unscored, *unreadable}))
    limited = run.manifest.inputs.selection.words
    if not limited or {*unscored} <= run.statuses().keys():
        return replace(scored, unscored=unscored)
    note = f"The run was limited {limited}."
    return replace(scored, unscored=unscored, notes=(*scored.notes, note))


def _noting_reviewers(scored: ArchehrScores, run: RunFolder) -> ArchehrScores:
    """A case that went on with a person's labels says nothing about the system that asked for them."""
    if scored.task not in _SHAPED_BY_LABELS:
        return scored
    count = sum(line["case_id"] in scored.case_ids for line in run.cases() if line.get("review"))
    if not count:
        return scored
    note = f"{count} of these cases have a reviewer's labels: their scores are the reviewer's, not the run's."
    return replace(scored, overall=None, notes=(*scored.notes, note))


def _only(gold: Mapping[str, GoldCase], asked: Asked) -> Mapping[str, GoldCase]:
    """The cases of a key that are asked for."""
    case_ids = asked.get("case_ids")
    return gold if case_ids is None else only_cases(gold, wanted_ids(case_ids))


def _some_of(gold: Mapping[str, GoldCase], asked: Asked) -> Mapping[str, GoldCase]:
    """The same, where at least one has to be in the key."""
    wanted, case_ids = _only(gold, asked), asked.get("case_ids")
    if case_ids is not None and not wanted:
        raise ScoringError(
            f"--case-ids: none of {case_ids!r} is among the {plural(len(gold), 'case')} of the key"
        )
    return wanted


def _demand_same_cases(
    path: Path, made: Sequence[Prediction], gold: Mapping[str, GoldCase], case_files: Sequence[Path]
) -> None:
    submitted = {one.case_id for one in made}
    missing, extra = sorted(gold.keys() - submitted), sorted(submitted - gold.keys())
    if extra and case_files:
        for case in find_cases(case_files):
            if isinstance(case, InvalidCase) and case.id in extra:
                fault = f"case {case.id!r} cannot be scored, as it cannot be read: {case.fault}"
                raise ScoringError(f"{path}: {fault}. Correct the case file")
    faults = [
        f"{kind}: {plural(len(ids), 'case')} (such as {ids[0]!r})"
        for ids, kind in ((missing, "missing of the key"), (extra, "not in the key"))
        if ids
    ]
    if faults:
        raise ScoringError(
            f"{path}: {' and '.join(faults)}; the official scorer refuses it. Score a part: --case-ids IDS"
        )


def _score_bioasq(
    origin: str, gold: Mapping[str, GoldCase], made: Sequence[BioasqPrediction], asked: Asked
) -> list[ScoredTask]:
    task = asked.get("task")
    parts = PARTS if task is None else PARTS_OF[task]
    scored = score_parts(gold, made, asked.get("definitions", OURS), parts)
    if not scored:
        raise ScoringError(
            f"{origin}: none of its questions has both, something said of it and gold in the question file."
            " Give the file that has the gold: --cases QUESTIONS.json"
        )
    return [*scored]
