"""From a run, or a ranking, to its submission to a task, and why some of its cases cannot be submitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cases.biomedical import QuestionType
from cases.submissions.archehr import KnownIds, Prediction, Task
from cases.submissions.bioasq import (
    MAX_ENTRY_CHARACTERS,
    MAX_FACTOID_ENTRIES,
    MAX_IDEAL_WORDS,
    MAX_LIST_ENTRIES,
    BioasqPrediction,
    BioasqTask,
)
from cases.submissions.task import Fault, SubmissionTask, TaskName, worst_first
from cases.submissions.tasks import ARCHEHR, BIOASQ
from cases.texts import plural
from evals.bioasq.scores import predictions_of_run
from evals.scoring.gold import predictions
from nodes.retrieval.document_settings import DocumentSettings
from nodes.verification.support import marked_text
from ranking.examples import Example
from ranking.rank_file import RankedRow
from runs.record.folder import Line, RunFolder
from runs.record.manifest import recorded_cases, recorded_recipe
from storage.errors import InputError

P = TypeVar("P")
K = TypeVar("K")


class _Lack(NamedTuple):
    """Output that a task requires and the run lacks, and the recipe field that produces it."""

    what: str
    field: str


_LACKS: Mapping[TaskName, _Lack] = {
    "2025": _Lack("no citations of its answers", "alignment.answer: generated"),
    "2026-1": _Lack("no interpreted questions", "question.interpret: always"),
    "2026-2": _Lack("no evidence", "evidence.votes above 0"),
    "2026-3": _Lack("no answers", "stop_after: answer"),
    "2026-4": _Lack("no links to the clinicians' answers", "alignment.answer: clinician"),
    "bioasq-a": _Lack("no documents", "documents.phase: a or both"),
    "bioasq-a+": _Lack("no answers from retrieved documents", "documents.phase: both"),
    "bioasq-b": _Lack("no answers", "documents.phase: b"),
}

FILLABLE: Mapping[Task, Prediction] = {
    "2026-2": Prediction("", evidence=()),
    "2026-4": Prediction("", links=()),
}
"""Tasks whose scorer takes an empty list for a case. The text tasks have no way to say nothing."""

RANKED_TASK: Task = "2026-2"
"""Task for rankings of sentences."""


@dataclass(frozen=True, slots=True)
class RunSubmission:
    """Submission of a run to a task.

    Attributes:
        entries: In the order of the run's cases.
        faults: Those with severity `refused` prevent submission.
        filled: Ids of the cases that are there without a prediction, because they have none.
    """

    entries: tuple[dict[str, Any], ...]
    faults: tuple[Fault, ...]
    filled: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether it breaks a rule, or lacks a case."""
        return any(fault.severity == "refused" for fault in self.faults)


def prepare(run: RunFolder, task: TaskName, *, fill_missing: bool = False) -> RunSubmission:
    """Collect a run's predictions and check them against its own cases.

    Answers longer than BioASQ's limit are truncated, each with a fault. With `fill_missing` a case without a
    prediction is submitted as one of nothing, if at least one case has one: as an empty list in the tasks of
    `FILLABLE`, without an answer in BioASQ.

    Raises:
        InputError: The case files have moved or cannot be read.
    """
    match task:
        case "bioasq-a" | "bioasq-a+" | "bioasq-b":
            return _prepare_phase(run, task, fill_missing)
        case _:
            return _prepare_archehr(run, task, fill_missing)


_ANSWER_TASKS: frozenset[TaskName] = frozenset({"2025", "2026-3", "bioasq-a+", "bioasq-b"})


def unsupported_answers(run: RunFolder, task: TaskName) -> list[str]:
    """What verification found wrong with the answers that a task takes, a line for each case.

    The task's format has no place for marks, so the submission has the answers without them.
    """
    if task not in _ANSWER_TASKS:
        return []
    found = []
    for line in run.cases():
        if line.get("answer_status") == "not_stated":
            found.append(f"case {line['case_id']} is submitted as not stated: {line['answer']}")
        elif line.get("answer_status") == "unsupported":
            marked = marked_text(line)
            found.append(f"case {line['case_id']} is submitted though not all is supported: {marked}")
    return found


def check_target(path: Path, examples: Sequence[Example]) -> None:
    """Refuse what cannot become a submission before anything is ranked.

    Raises:
        InputError: Wrong suffix, or the examples are not cases with sentence ids.
    """
    if path.suffix.lower() not in ARCHEHR[RANKED_TASK].suffixes:
        raise InputError(path, "a submission ends in .zip or .json")
    nameless = next((example.id for example in examples if not example.sentence_ids), None)
    if nameless is not None:
        fault = f"example {nameless!r} has no sentence ids, so it is not a case of ArchEHR-QA"
        raise InputError(path, fault, "Rank ArchEHR cases, or leave --submission out")


def write_ranked(path: Path, rows: Iterable[RankedRow], examples: Sequence[Example]) -> list[Fault]:
    """Write the submission, unless the official scorer would refuse it.

    Returns:
        Faults that the scorer would reject; empty if it is written.

    Raises:
        InputError: It cannot be written.
    """
    predictions = [Prediction(row.id, evidence=row.selected) for row in rows]
    known = {example.id: KnownIds(frozenset(example.sentence_ids)) for example in examples}
    task = ARCHEHR[RANKED_TASK]
    faults = task.find_faults([task.entry_of(one) for one in predictions], known)
    refused = [fault for fault in faults if fault.severity == "refused"]
    if not refused:
        task.write(path, predictions)
    return refused


def _prepare_archehr(run: RunFolder, task: Task, fill_missing: bool) -> RunSubmission:
    what = _LACKS[task].what
    found = {one.case_id: one for one in predictions(run)}
    having = {id_: one for id_, one in found.items() if ARCHEHR[task].has_part(one)}
    if found and not having:
        return RunSubmission((), (_lack_of_recipe(task, None, str(run.path), f"the run has {what}"),))
    if fill_missing and not having:
        return RunSubmission((), (_nothing(run, "no case is done"),))
    empty = FILLABLE.get(task) if fill_missing else None
    return _collect(
        run,
        ARCHEHR[task],
        having,
        (lambda id_: replace(empty, case_id=id_)) if empty is not None else None,
        lambda id_: _lack_of_recipe(task, id_, "", f"it has {what}"),
        lambda said, known: (said, []),
    )


def _prepare_phase(run: RunFolder, task: BioasqTask, fill_missing: bool) -> RunSubmission:
    settings = recorded_recipe(run.manifest).find_section(DocumentSettings)
    if settings is None:
        what = f"a run of {run.manifest.system!r} answers no questions of BioASQ"
        fault = Fault("refused", None, str(run.path), what, "Give a run of a system that does")
        return RunSubmission((), (fault,))
    phase, what = settings.phase, _LACKS[task].what
    if {"bioasq-a": phase == "b", "bioasq-a+": phase != "both", "bioasq-b": phase == "a"}[task]:
        return RunSubmission((), (_lack_of_recipe(task, None, str(run.path), f"the run has {what}"),))
    having = {one.id: one for one in predictions_of_run(run) if BIOASQ[task].has_part(one)}
    if not having:
        return RunSubmission((), (_nothing(run, f"the run has {what}"),))
    show = f"evigraph show {run.path}"
    filling = "shows why; --fill-missing submits the question without it"
    return _collect(
        run,
        BIOASQ[task],
        having,
        BioasqPrediction if fill_missing else None,
        lambda id_: Fault("refused", id_, "", f"it has {what}", f"{show} {id_} {filling}"),
        _within_limits,
    )


def _collect(
    run: RunFolder,
    task: SubmissionTask[P, K],
    having: Mapping[str, P],
    empty: Callable[[str], P] | None,
    lacking: Callable[[str], Fault],
    shorten: Callable[[P, K | None], tuple[P, list[Fault]]],
) -> RunSubmission:
    """Put the cases of a run into a submission, in their order, and check it.

    `having` has the predictions that say something on the task, by case id; `empty` makes one of nothing, and
    is None where cases must have one; `lacking` gives the fault of a completed case without output for the
    task; `shorten` truncates texts that are too long, with a fault for each.
    """
    lines = {line["case_id"]: line for line in run.cases()}
    known = {case.id: task.known_in_case(case) for case in recorded_cases(run.manifest)}
    inputs = run.manifest.inputs
    expected = task.read_expected(inputs.key_files, inputs.case_files)
    # Only the run's lines list unreadable cases.
    of_run = dict.fromkeys([*known, *lines])
    left_out = [id_ for id_ in expected if id_ not in of_run]
    entries: list[dict[str, Any]] = []
    faults: list[Fault] = []
    filled: list[str] = []
    not_run: list[str] = []
    for id_ in [*of_run, *(left_out if empty is not None else ())]:
        if id_ in having:
            made, cuts = shorten(having[id_], known.get(id_))
            faults += cuts
        elif empty is not None:
            made = empty(id_)
            filled.append(id_)
        elif id_ in lines:
            done = lines[id_]["status"] == "done"
            faults.append(lacking(id_) if done else _undone(run, id_, lines[id_]))
            continue
        else:
            not_run.append(id_)
            continue
        try:
            entries.append(task.entry_of(made))
        except ValueError as error:
            faults.append(Fault("refused", None, "", str(error), "Give the sentences of its note plain ids"))
    if entries:
        unsaid = {*of_run, *left_out} - {entry[task.id_field] for entry in entries}
        found = task.find_faults(entries, {id_: ids for id_, ids in expected.items() if id_ not in unsaid})
        # A filled case lacks a prediction by definition.
        faults += [one for one in found if one.severity == "refused" or one.case not in filled]
    if not_run:
        faults.append(_unfinished(run, task, not_run, len(of_run)))
    if left_out and empty is None:
        faults.append(_left_out(run, task, left_out))
    return RunSubmission(tuple(entries), tuple(worst_first(faults)), tuple(filled))


def _lack_of_recipe(task: TaskName, case: str | None, place: str, fault: str) -> Fault:
    return Fault("refused", case, place, fault, f"Run with a recipe that has {_LACKS[task].field}")


def _nothing(run: RunFolder, fault: str) -> Fault:
    return Fault("refused", None, str(run.path), fault, f"evigraph show {run.path}")


def _unfinished(run: RunFolder, task: SubmissionTask[P, K], ids: Sequence[str], cases: int) -> Fault:
    """One fault for all cases that have not run; a single one is named."""
    remedy = f"evigraph resume {run.path}"
    if not ids[1:]:
        return Fault("refused", ids[0], "", "not run yet", remedy)
    fault = f"{len(ids):,} of {cases:,} {task.words.case[1]} not run yet ({ids[0]!r}, ...)"
    return Fault("refused", None, str(run.path), fault, remedy)


def _undone(run: RunFolder, case_id: str, line: Line) -> Fault:
    """Why a case is not done, and what to type."""
    if line["status"] == "waiting":
        return Fault("refused", case_id, "", "waits for a person", f"evigraph review {run.path} {case_id}")
    error = line["error"]
    if error["class"] == "invalid_input":
        remedy = f"Correct the case file, then: evigraph retry {run.path} --corrected"
        return Fault("refused", case_id, "", f"failed: {error['message']}", remedy)
    return Fault("refused", case_id, "", f"failed: {error['class']}", f"evigraph retry {run.path}")


def _left_out(run: RunFolder, task: SubmissionTask[P, K], ids: Sequence[str]) -> Fault:
    """Cases of the test set that are not in the run at all."""
    shown = f"{ids[0]!r}, ..." if ids[1:] else repr(ids[0])
    fault = f"{len(ids):,} {task.words.case[len(ids) != 1]} of the test set not in the run ({shown})"
    manifest = run.manifest
    if manifest.forked_from is not None:
        remedy = f"Submit the run that it branched off: {manifest.forked_from.run}"
    elif manifest.inputs.shard is not None:
        remedy = f"The run is shard {manifest.inputs.shard}: merge all shards first (evigraph merge)"
    elif limited := manifest.inputs.selection.words:
        remedy = f"The run was limited {limited}: run them all"
    else:
        remedy = "Run every case of the key"
    return replace(task.set_faults.missing, place=str(run.path), fault=fault, remedy=remedy)


def _within_limits(said: BioasqPrediction, kind: QuestionType | None) -> tuple[BioasqPrediction, list[Fault]]:
    """Truncate long texts. A factoid's entries are ranked, so its last ones are dropped silently."""
    cuts: list[Fault] = []

    def report(field: str, fault: str) -> None:
        cuts.append(Fault("penalised", said.id, field, fault, "Shorten it in the run"))

    kept = said
    if isinstance(said.exact_answer, tuple):
        entries = tuple(names for names in said.exact_answer if names and names[0].strip())
        if kind == "factoid":
            entries = entries[:MAX_FACTOID_ENTRIES]
        else:
            short = tuple(names for names in entries if len(names[0]) <= MAX_ENTRY_CHARACTERS)
            if len(short) < len(entries):
                left_out = len(entries) - len(short)
                report(
                    "exact_answer",
                    f"{plural(left_out, 'entry')} above {MAX_ENTRY_CHARACTERS} characters left out",
                )
            if len(short) > MAX_LIST_ENTRIES:
                report("exact_answer", f"{plural(len(short), 'entry')}, cut to {MAX_LIST_ENTRIES}")
            entries = short[:MAX_LIST_ENTRIES]
        kept = replace(kept, exact_answer=entries or None)
    words = (said.ideal_answer or "").split()
    if len(words) > MAX_IDEAL_WORDS:
        report("ideal_answer", f"{plural(len(words), 'word')}, cut to {MAX_IDEAL_WORDS}")
        kept = replace(kept, ideal_answer=" ".join(words[:MAX_IDEAL_WORDS]))
    return kept, cuts
