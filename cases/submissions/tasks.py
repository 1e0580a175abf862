"""Every task that takes submissions, and which of them a file may be for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from cases.submissions.archehr import (
    ArchehrTask,
    Found,
    KnownIds,
    Prediction,
    Task,
    id_faults,
    kind_of,
    quoted,
)
from cases.submissions.bioasq import BIOASQ_TASKS, BioasqPhase, BioasqTask, looks_like_bioasq, possible_phases
from cases.submissions.cited_answers import CitedAnswerTask
from cases.submissions.task import Fault, SubmissionTask, TaskName, named
from cases.submissions.texts import PlainTextTask

_SENTENCE = "sentence of the note"
_ANSWER = "sentence of the clinician's answer"
_NOTHING = KnownIds()


class EvidenceTask(ArchehrTask):
    """Subtask 2: a list of ids of the note's sentences."""

    part = "evidence"

    def value_of(self, prediction: Prediction) -> list[str]:
        return list(prediction.evidence or ())

    def prediction_of(self, entry: Mapping[str, Any]) -> Prediction:
        return Prediction(entry["case_id"], evidence=tuple(dict.fromkeys(entry[self.field])))

    def value_faults(self, value: object) -> Found:
        if not isinstance(value, list):
            yield self.field, f"{kind_of(value)}, not a list of sentence ids", 'Write ["1", "2"]'
        else:
            yield from id_faults(value, self.field)

    def rule_faults(self, entry: Mapping[str, Any], known: KnownIds | None) -> Iterator[Fault]:
        sentences = (known or _NOTHING).sentences
        yield from _unknown_ids(entry["case_id"], self.field, entry[self.field], sentences, _SENTENCE)


class LinkTask(ArchehrTask):
    """Subtask 4: for each sentence of the clinician's answer, ids of the note sentences that support it."""

    part = "links"
    needs = ("sentences", "answer_sentences")

    def value_of(self, prediction: Prediction) -> list[dict[str, Any]]:
        cited: dict[str, list[str]] = {}
        for answer_id, evidence_id in prediction.links or ():
            cited.setdefault(answer_id, []).append(evidence_id)
        return [{"answer_id": answer_id, "evidence_id": ids} for answer_id, ids in cited.items()]

    def prediction_of(self, entry: Mapping[str, Any]) -> Prediction:
        pairs = ((item["answer_id"], id_) for item in entry[self.field] for id_ in item["evidence_id"])
        return Prediction(entry["case_id"], links=tuple(dict.fromkeys(pairs)))

    def value_faults(self, value: object) -> Found:
        if not isinstance(value, list):
            form = '[{"answer_id": "1", "evidence_id": ["1", "2"]}]'
            yield self.field, f"{kind_of(value)}, not a list of objects", f"Write {form}"
            return
        for index, item in enumerate(value):
            place = f"{self.field}[{index}]"
            if not isinstance(item, dict):
                yield place, f"{kind_of(item)}, not an object", ""
                continue
            for name in ("answer_id", "evidence_id"):
                if name not in item:
                    yield place, f"no field {name!r}", ""
            answer_id, evidence = item.get("answer_id", ""), item.get("evidence_id", [])
            if not isinstance(answer_id, str):
                yield f"{place}.answer_id", f"{kind_of(answer_id)}, not text", quoted(answer_id)
            if not isinstance(evidence, list):
                yield f"{place}.evidence_id", f"{kind_of(evidence)}, not a list", 'Write ["1", "2"]'
            else:
                yield from id_faults(evidence, f"{place}.evidence_id")

    def rule_faults(self, entry: Mapping[str, Any], known: KnownIds | None) -> Iterator[Fault]:
        known = known or _NOTHING
        for index, item in enumerate(entry[self.field]):
            for name, ids, those, kind in (
                ("answer_id", [item["answer_id"]], known.answer_sentences, _ANSWER),
                ("evidence_id", item["evidence_id"], known.sentences, _SENTENCE),
            ):
                place = f"{self.field}[{index}].{name}"
                yield from _unknown_ids(entry["case_id"], place, ids, those, kind)


def _unknown_ids(
    case: str, place: str, ids: Iterable[str], known: Collection[str] | None, kind: str
) -> Iterator[Fault]:
    unique = list(dict.fromkeys(ids))
    blank = [id_ for id_ in unique if id_ != id_.strip() or not id_]
    if blank:
        # No key has such ids, so this needs none.
        fault = f"blanks count as part of an id: {named(blank)} is not a {kind}"
        yield Fault("refused", case, place, fault, "Write ids without blanks")
    unknown = [id_ for id_ in unique if known is not None and id_ not in known and id_ not in blank]
    if unknown:
        fault = f"{named(unknown)} is not a {kind}"
        yield Fault("refused", case, place, fault, "Name single ids, as the case has them")


ARCHEHR: Mapping[Task, ArchehrTask] = {
    "2025": CitedAnswerTask("2025"),
    "2026-1": PlainTextTask("2026-1"),
    "2026-2": EvidenceTask("2026-2"),
    "2026-3": PlainTextTask("2026-3"),
    "2026-4": LinkTask("2026-4"),
}
BIOASQ: Mapping[BioasqTask, BioasqPhase] = {name: BioasqPhase(name) for name in BIOASQ_TASKS}
Family = Mapping[Any, SubmissionTask[Any, Any]]
"""Tasks that a file may be for, by name."""

_EVERY: tuple[SubmissionTask[Any, Any], ...] = (*ARCHEHR.values(), *BIOASQ.values())
SUBMISSIONS: Mapping[TaskName, SubmissionTask[Any, Any]] = {task.name: task for task in _EVERY}

TASKS: tuple[Task, ...] = get_args(Task)


def family_of(path: Path) -> Family:
    """The tasks that a file may be for by how it begins: those of BioASQ, or those of ArchEHR-QA.

    Raises:
        InputError: It cannot be read.
    """
    return BIOASQ if looks_like_bioasq(path) else ARCHEHR


def possible_tasks(entries: Iterable[object], family: Family) -> tuple[TaskName, ...]:
    """The tasks of a family that entries have the shape of."""
    return possible_phases(entries) if family is BIOASQ else possible_archehr(entries)


def possible_archehr(entries: Iterable[object]) -> tuple[Task, ...]:
    """The tasks of ArchEHR-QA that entries have the shape of.

    Texts may belong to subtask 1 or 3 of 2026, and only empty lists to 2 or 4. Entries that no task
    knows, or that disagree, leave none.
    """
    shapes = [found for found in map(_shapes, entries) if found]
    return tuple(task for task in TASKS if shapes and all(task in found for found in shapes))


def guess_task(entries: Iterable[object]) -> Task | None:
    """The one task of ArchEHR-QA that entries have the shape of; None if it takes a person to say."""
    possible = possible_archehr(entries)
    return possible[0] if len(possible) == 1 else None


def _shapes(entry: object) -> set[Task]:
    if not isinstance(entry, dict):
        return set()
    if "prediction" not in entry:
        return {"2025"} if "answer" in entry else set()
    value = entry["prediction"]
    if isinstance(value, str):
        return {"2026-1", "2026-3"}
    return _list_shapes(value) if isinstance(value, list) else set()


def _list_shapes(items: Sequence[object]) -> set[Task]:
    if not items:
        return {"2026-2", "2026-4"}
    return {"2026-4"} if all(isinstance(item, dict) for item in items) else {"2026-2"}
