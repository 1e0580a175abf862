"""Every task that takes submissions, and which of them a file may be for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from cases.submissions.archehr import ArchehrTask, Task
from cases.submissions.bioasq import BIOASQ_TASKS, BioasqPhase, BioasqTask, looks_like_bioasq, possible_phases
from cases.submissions.cited_answers import CitedAnswerTask
from cases.submissions.ids import EvidenceTask, LinkTask
from cases.submissions.task import SubmissionTask, TaskName
from cases.submissions.texts import PlainTextTask

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

    Texts may belong to subtask 1 or 3 of 2026, and nothing but empty lists to 2 or 4. Entries that no task
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
