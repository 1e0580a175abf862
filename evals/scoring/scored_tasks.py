"""Runs and submissions to scores: what can be scored, and on which cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cases.load import find_cases, sort_keys
from cases.records import InvalidCase
from cases.submissions.archehr import Prediction, Task
from cases.submissions.container import read_entries
from cases.submissions.tasks import ARCHEHR, guess_task
from cases.texts import plural
from evals.metrics.text_metric import MetricResources
from evals.scoring.gold import (
    GoldCase,
    ScoringError,
    only_cases,
    predictions,
    read_gold,
    wanted_ids,
    whole_key,
)
from evals.scoring.measures import OVERALL, TaskScores, pair_scores
from evals.scoring.score import gold_for, score
from evals.scoring.tasks import TASKS
from evals.statistics.bootstrap import Interval, intervals_of
from graph.system import find_system
from runs.record.folder import RunFolder

_SOURCE_OF_LABELS = "label_source"
"""A result of runs that label notes from their answers."""

_HAS_SEEN_ANSWERS = (
    "This run was shown the clinicians' answers: its scores tell how good weak labels are, and are no entry"
    " to the task."
)

_SHAPED_BY_LABELS: tuple[Task, ...] = ("2025", "2026-2", "2026-3")
"""Tasks whose predictions are made of the run's labels."""


@dataclass(frozen=True, slots=True)
class ScoredTask:
    """Scores of a run or a submission, and what of them is official."""

    scores: TaskScores

    @property
    def values(self) -> dict[str, float]:
        """All values by name; the overall one only where it is official."""
        return {**self.scores.values, **self.scores.extra, **self._overall()}

    def as_json(self) -> dict[str, Any]:
        """One object for programs."""
        scores = self.scores
        return {
            "task": scores.task,
            "scored_cases": len(scores.cases),
            "unscored_cases": list(scores.unscored),
            "values": {**scores.values, **self._overall()},
            "extra": dict(scores.extra),
            "intervals": {
                name: [its.low, its.high]
                for name, its in self.intervals().items()
                if name != OVERALL or self.overall_score is not None
            },
            "mean_of_available": scores.mean_of_available,
            "not_computed": dict(scores.not_computed),
            "notes": list(scores.notes),
        }

    @property
    def overall_score(self) -> float | None:
        """The official score; None where a metric or a case is missing, which an official scorer refuses."""
        return None if self.scores.unscored else self.scores.overall

    def intervals(self) -> dict[str, Interval]:
        """95 % intervals by the names of the values; empty for a single case."""
        paired = pair_scores(self.scores, self.scores)
        if len(paired.case_ids) < 2:
            return {}
        return intervals_of(paired.first, {one.name: one.statistic for one in paired.measures})

    def _overall(self) -> dict[str, float]:
        return {} if self.overall_score is None else {OVERALL: self.overall_score}


def score_run(
    run: RunFolder,
    *,
    keys: Sequence[Path] = (),
    case_files: Sequence[Path] = (),
    task: Task | None = None,
    case_ids: str | None = None,
    resources: MetricResources | None = None,
) -> list[ScoredTask]:
    """Score a run on one task, or on every task that it answers and its key labels.

    A case that failed or was not run is no empty prediction: it is named in `unscored`, and there is no
    overall score then.

    Raises:
        ScoringError: Nothing can be scored.
        InputError: A file cannot be used.
    """
    key = whole_key(run, keys, case_files)
    gold = _restricted(key.gold, case_ids)
    scored = score_predictions(list(predictions(run)), gold, task, resources)
    if not scored:
        needed = "; ".join(f"{name}: {TASKS[name].needs}" for name in sorted(TASKS))
        raise ScoringError(
            f"{run.path}: the run and its key share nothing to score. Give a key: --key KEY ({needed})"
        )
    if _SOURCE_OF_LABELS in find_system(run.manifest.system).results:
        scored = [replace(one, overall=None, notes=(*one.notes, _HAS_SEEN_ANSWERS)) for one in scored]
    wanted = None if case_ids is None else wanted_ids(case_ids)
    unreadable = [id_ for id_ in key.unreadable if wanted is None or id_ in wanted]
    missing = [() if key.has_keys and not TASKS[one.task].in_case_files else unreadable for one in scored]
    return [
        ScoredTask(_naming_missing(_noting_reviewers(one, run), run, its))
        for one, its in zip(scored, missing, strict=True)
    ]


def _naming_missing(scores: TaskScores, run: RunFolder, unreadable: Sequence[str]) -> TaskScores:
    """With the cases that cannot be read and may well be labelled, and why cases are missing."""
    unscored = tuple(sorted({*scores.unscored, *unreadable}))
    limited = run.manifest.inputs.selection.words
    if not limited or {*unscored} <= run.statuses().keys():
        return replace(scores, unscored=unscored)
    note = f"The run was limited {limited}."
    return replace(scores, unscored=unscored, notes=(*scores.notes, note))


def _noting_reviewers(scores: TaskScores, run: RunFolder) -> TaskScores:
    """A case that went on with a person's labels says nothing about the system that asked for them."""
    if scores.task not in _SHAPED_BY_LABELS:
        return scores
    scored = {case.case_id for case in scores.cases}
    count = sum(line["case_id"] in scored for line in run.cases() if line.get("review"))
    if not count:
        return scores
    note = f"{count} of these cases have a reviewer's labels: their scores are the reviewer's, not the run's."
    return replace(scores, overall=None, notes=(*scores.notes, note))


def score_predictions(
    made: Sequence[Prediction],
    gold: Mapping[str, GoldCase],
    task: Task | None = None,
    resources: MetricResources | None = None,
) -> list[TaskScores]:
    """Score what a run predicts on a task, or on every task that both it and the key know of.

    Raises:
        ScoringError: The one task that is asked for cannot be scored.
    """
    scored = []
    for one in TASKS if task is None else (task,):
        submitted = as_submitted(one, made)
        known = gold_for(one, gold)
        if task is not None or any(each.case_id in known for each in submitted):
            scored.append(score(one, submitted, gold, resources, refuse_unknown=False))
    return scored


def as_submitted(task: Task, made: Iterable[Prediction]) -> list[Prediction]:
    """What an official scorer would read of predictions: texts cut at their limit, citations as a set.

    Those that it would refuse, such as an answer of 2025 without a citation, are left out.
    """
    rules = ARCHEHR[task]
    entries = [rules.entry_of(one) for one in made if rules.has_part(one)]
    return [rules.prediction_of(entry) for entry in entries if not rules.form_faults(entry, 1)]


def score_submission(
    path: Path,
    *,
    keys: Sequence[Path],
    case_files: Sequence[Path] = (),
    task: Task | None = None,
    case_ids: str | None = None,
    resources: MetricResources | None = None,
) -> list[ScoredTask]:
    """Score a submission as its official scorer does, and refuse what that refuses.

    Raises:
        ScoringError: Its cases are not those of the key, or an id is unknown.
        InputError: A file cannot be used.
    """
    found = task or guess_task(read_entries(path))
    if found is None:
        raise ScoringError(f"{path}: its form does not tell which task it is for; name it: --task TASK")
    made = ARCHEHR[found].read(path)
    keys, case_files = sort_keys(keys, case_files)
    in_case_files = TASKS[found].in_case_files and bool(case_files)
    gold = _restricted(read_gold([] if in_case_files else keys, case_files), case_ids)
    if case_ids is not None:
        made = [one for one in made if one.case_id in gold]
    _demand_same_cases(path, made, gold, case_files)
    return [ScoredTask(score(found, made, gold, resources))]


def _restricted(gold: Mapping[str, GoldCase], case_ids: str | None) -> Mapping[str, GoldCase]:
    if case_ids is None:
        return gold
    wanted = only_cases(gold, wanted_ids(case_ids))
    if not wanted:
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
