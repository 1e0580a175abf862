"""From a run to what can be handed in, and why some of it cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cases.submissions.fault import Fault
from cases.submissions.forms import entry_of, has_part
from cases.submissions.known_ids import KnownIds, known_in_case
from cases.submissions.prediction import Prediction, Task
from cases.submissions.validate import find_faults
from evals.scoring.run_predictions import prediction_of
from runs.folder import Line, RunFolder
from runs.inputs import recorded_cases

FILLABLE: Mapping[Task, Prediction] = {
    "2026-2": Prediction("", evidence=()),
    "2026-4": Prediction("", links=()),
}
"""Tasks whose scorer takes an empty list for a case. The text tasks have no way to say nothing."""

_LACKS: Mapping[Task, tuple[str, str]] = {
    "2025": ("no citations of its answers", "alignment.answer: generated"),
    "2026-1": ("no interpreted questions", "question.interpret: always"),
    "2026-2": ("no evidence", "evidence.votes above 0"),
    "2026-3": ("no answers", "stop_after: answer"),
    "2026-4": ("no links to the clinicians' answers", "alignment.answer: clinician"),
}


@dataclass(frozen=True, slots=True)
class RunSubmission:
    """What a run can hand in to a task.

    Attributes:
        predictions: In the order of the run's cases.
        faults: The refused ones stand in the way of handing in.
        filled: Ids of the cases whose prediction is an empty list only because they have none.
    """

    predictions: tuple[Prediction, ...]
    faults: tuple[Fault, ...]
    filled: tuple[str, ...]

    @property
    def refused(self) -> bool:
        """Whether the official scorer would refuse it."""
        return any(fault.severity == "refused" for fault in self.faults)


def prepare(run: RunFolder, task: Task, *, fill_missing: bool = False) -> RunSubmission:
    """Collect a run's predictions and check them against the run's own cases.

    Args:
        run: Where they come from; its case files are read again for the ids that may be named.
        task: Which part of each prediction is handed in.
        fill_missing: Let cases without a prediction hand in an empty list, in the tasks of `FILLABLE`, if
            at least one case has a prediction.

    Raises:
        InputError: The case files have moved or cannot be read.
    """
    known = {case.id: known_in_case(case) for case in recorded_cases(run.manifest)}
    lines = {line["case_id"]: line for line in run.cases()}
    found = {id_: prediction_of(line) for id_, line in lines.items() if line["status"] == "done"}
    having = {id_: prediction for id_, prediction in found.items() if has_part(prediction, task)}
    if found and not having:
        return RunSubmission((), (_lack_of_all(run, task),), ())
    if fill_missing and not having:
        nothing = Fault("refused", None, str(run.path), "no case is done", f"evigraph show {run.path}")
        return RunSubmission((), (nothing,), ())
    empty = FILLABLE.get(task) if fill_missing else None
    predicted: list[Prediction] = []
    filled: list[str] = []
    faults: list[Fault] = []
    # Cases that cannot be read stand in the run's lines alone.
    for case_id in dict.fromkeys([*known, *lines]):
        if case_id in having:
            predicted.append(having[case_id])
        elif empty is not None:
            predicted.append(replace(empty, case_id=case_id))
            filled.append(case_id)
        else:
            faults.append(_missing(run, task, case_id, lines.get(case_id)))
    return RunSubmission(
        tuple(predicted), (*faults, *_faults_of_content(predicted, task, known)), tuple(filled)
    )


def _faults_of_content(
    predicted: list[Prediction], task: Task, known: Mapping[str, KnownIds]
) -> Iterator[Fault]:
    entries = []
    for prediction in predicted:
        try:
            entries.append(entry_of(prediction, task))
        except ValueError as error:
            yield Fault("refused", None, "", str(error), "Give the sentences of its note plain ids")
    if entries:
        written = {entry["case_id"]: known.get(entry["case_id"], KnownIds()) for entry in entries}
        yield from find_faults(entries, task, written)


def _lack_of_all(run: RunFolder, task: Task) -> Fault:
    what, field = _LACKS[task]
    return Fault("refused", None, str(run.path), f"the run has {what}", _recipe_remedy(field))


def _missing(run: RunFolder, task: Task, case_id: str, line: Line | None) -> Fault:
    if line is not None and line["status"] == "done":
        what, field = _LACKS[task]
        return Fault("refused", case_id, "", f"it has {what}", _recipe_remedy(field))
    return undone(run, case_id, line)


def undone(run: RunFolder, case_id: str, line: Line | None) -> Fault:
    """Why a case is not done, and what to type."""
    if line is None:
        return Fault("refused", case_id, "", "not run yet", f"evigraph resume {run.path}")
    if line["status"] == "waiting":
        return Fault("refused", case_id, "", "waits for a person", f"evigraph review {run.path} {case_id}")
    error = line["error"]
    if error["class"] == "invalid_input":
        return Fault("refused", case_id, "", f"failed: {error['message']}", "Correct the case file, run anew")
    return Fault("refused", case_id, "", f"failed: {error['class']}", f"evigraph retry {run.path}")


def _recipe_remedy(field: str) -> str:
    return f"Run with a recipe that has {field}"
