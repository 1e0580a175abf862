"""Which task a submission belongs to, told by its shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import get_args

from cases.submissions.prediction import Task

TASKS: tuple[Task, ...] = get_args(Task)


def possible_tasks(entries: Iterable[object]) -> tuple[Task, ...]:
    """The tasks that entries have the shape of.

    Texts may belong to subtask 1 or 3 of 2026, and nothing but empty lists to 2 or 4. Entries that no task
    knows, or that disagree, leave none.
    """
    possible = set(TASKS)
    told = False
    for entry in entries:
        shapes = _shapes(entry)
        if shapes:
            told = True
            possible &= shapes
    return tuple(task for task in TASKS if told and task in possible)


def guess_task(entries: Iterable[object]) -> Task | None:
    """The one task that entries have the shape of; None if it takes a person to say."""
    possible = possible_tasks(entries)
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
