from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cases.archehr_key import write_archehr_key
from cases.records import Gold
from cases.submissions.prediction import Task
from evals.scoring.gold import read_gold
from evals.scoring.matching import Matched
from evals.scoring.task_scores import TaskScores
from evals.scoring.weak import marked_if_weak
from tests.evals.scoring.examples import evidence, labelled

GOLD = Matched(evidence("1", "1"), labelled("1", "1", "", "2"))
WEAK = Matched(evidence("2", "1"), replace(labelled("2", "1", "", "2"), weak=True))


def scores(task: Task = "2026-2") -> TaskScores:
    values = {"strict_micro_f1": 50.0, "overall_factuality_score": 50.0}
    return TaskScores(task, values, 50.0, (), notes=("Something else.",))


@pytest.mark.parametrize("task", ["2025", "2026-2"])
def test_scores_against_weak_labels_say_so_and_have_no_overall_score(task: Task) -> None:
    marked = marked_if_weak(scores(task), [GOLD, WEAK])
    assert marked.notes[0].startswith("1 of 2 cases are scored against weak labels")
    assert marked.notes[1:] == ("Something else.",)
    assert marked.overall is None
    assert marked.values == {"strict_micro_f1": 50.0}


def test_scores_against_gold_are_left_as_they_are() -> None:
    assert marked_if_weak(scores(), [GOLD]) == scores()


@pytest.mark.parametrize("task", ["2026-1", "2026-3", "2026-4"])
def test_tasks_that_read_no_labels_keep_their_score(task: Task) -> None:
    assert marked_if_weak(scores(task), [WEAK]) == scores(task)


def test_a_key_tells_which_labels_are_weak(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    labels = Gold({"1": "essential"})
    write_archehr_key(path, {"1": labels, "2": replace(labels, label_source="weak"), "3": Gold(answer="A.")})
    assert {case_id: one.weak for case_id, one in read_gold([path], []).items()} == {
        "1": False,
        "2": True,
        "3": False,
    }
