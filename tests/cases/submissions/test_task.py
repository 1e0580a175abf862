from __future__ import annotations

import pytest

from cases.submissions.archehr import Task
from cases.submissions.tasks import guess_task, possible_archehr

TEXT = {"case_id": "1", "prediction": "Why?"}
NOTHING: dict[str, object] = {"case_id": "1", "prediction": []}
IDS = {"case_id": "1", "prediction": ["1"]}
LINKS = {"case_id": "1", "prediction": [{"answer_id": "1", "evidence_id": []}]}
CITED = {"case_id": "1", "answer": "So. |1|"}


@pytest.mark.parametrize(
    ("entries", "tasks"),
    [
        ([CITED], ("2025",)),
        ([TEXT], ("2026-1", "2026-3")),
        ([IDS, NOTHING], ("2026-2",)),
        ([NOTHING, LINKS], ("2026-4",)),
        ([NOTHING], ("2026-2", "2026-4")),
        ([{"case_id": "1", "prediction": [1]}], ("2026-2",)),
        ([CITED, "odd", {}], ("2025",)),
        ([CITED, IDS], ()),
        ([], ()),
        (["odd", {"case_id": "1"}, {"prediction": None}], ()),
    ],
)
def test_shapes(entries: list[object], tasks: tuple[Task, ...]) -> None:
    assert possible_archehr(entries) == tasks
    assert guess_task(entries) == (tasks[0] if len(tasks) == 1 else None)
