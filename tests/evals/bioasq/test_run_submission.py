from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cases.submissions.bioasq import BIOASQ_TASKS, BioasqTask
from evals.run_scores import family_of, score_run
from evals.scoring.gold import ScoringError
from evals.submissions import RunSubmission, prepare
from tests.evals.bioasq.runs import failed, ideal_lines, make_run
from tests.evals.scoring.runs import done
from tests.evals.scoring.runs import make_run as make_archehr_run


def of_first(folder: Path, task: BioasqTask = "bioasq-a+", **fields: Any) -> RunSubmission:
    """With a change to the first list question's line."""
    first, *others = ideal_lines()[2:]
    return prepare(make_run(folder, [{**first, **fields}, *others, *ideal_lines()[:2]]), task)


@pytest.mark.parametrize("task", BIOASQ_TASKS)
def test_a_run_of_both_phases_hands_in_every_question(tmp_path: Path, task: BioasqTask) -> None:
    ready = prepare(make_run(tmp_path, ideal_lines()), task)
    assert (len(ready.entries), ready.faults) == (24, ())


@pytest.mark.parametrize(("phase", "task"), [("b", "bioasq-a"), ("b", "bioasq-a+"), ("a", "bioasq-b")])
def test_what_a_recipe_does_not_do_is_not_handed_in(tmp_path: Path, phase: str, task: BioasqTask) -> None:
    ready = prepare(make_run(tmp_path, ideal_lines(), documents={"phase": phase}), task)
    assert ready.refused and ready.entries == ()
    assert "Run with a recipe that has documents.phase" in ready.faults[0].remedy


def test_a_failed_question_is_named_and_stands_in_the_way(tmp_path: Path) -> None:
    first, *others = ideal_lines()
    ready = prepare(make_run(tmp_path, [failed(first), *others]), "bioasq-b")
    (fault,) = ready.faults
    assert (fault.severity, fault.case, fault.fault) == ("refused", first["case_id"], "failed: timeout")
    assert "evigraph retry" in fault.remedy


@pytest.mark.parametrize(
    ("task", "empty"), [("bioasq-a", {"documents": [], "snippets": []}), ("bioasq-b", {})]
)
def test_if_asked_it_is_handed_in_without_an_answer(
    tmp_path: Path, task: BioasqTask, empty: dict[str, object]
) -> None:
    first, *others = ideal_lines()
    ready = prepare(make_run(tmp_path, [failed(first), *others]), task, fill_missing=True)
    assert not ready.refused and ready.filled == (first["case_id"],)
    assert ready.entries[0] == {"id": first["case_id"], **empty}


def test_a_run_without_an_answer_is_not_filled(tmp_path: Path) -> None:
    ready = prepare(make_run(tmp_path, map(failed, ideal_lines())), "bioasq-b", fill_missing=True)
    assert [(one.fault, one.remedy) for one in ready.faults] == [
        ("the run has no answers", f"evigraph show {tmp_path / 'run'}")
    ]
    assert ready.refused


def test_a_run_on_notes_answers_no_questions_of_bioasq(tmp_path: Path) -> None:
    ready = prepare(make_archehr_run(tmp_path, "7", [done("7")]), "bioasq-b")
    assert ready.refused and ready.entries == ()
    assert [one.fault for one in ready.faults] == ["a run of 'tamu' answers no questions of BioASQ"]


def test_a_question_that_was_not_run_is_named(tmp_path: Path) -> None:
    ready = prepare(make_run(tmp_path, ideal_lines()[1:]), "bioasq-a")
    assert [fault.fault for fault in ready.faults] == ["not run yet"]


def test_an_answer_that_is_too_long_is_cut_and_said(tmp_path: Path) -> None:
    assert of_first(tmp_path / "whole", answer="mint " * 200).faults == ()
    ready = of_first(tmp_path, answer="mint " * 230)
    assert len(ready.entries[2]["ideal_answer"].split()) == 200
    assert [(one.severity, one.fault) for one in ready.faults] == [("penalised", "230 words, cut to 200")]


def test_list_entries_that_are_too_long_or_too_many_are_left_out_and_said(tmp_path: Path) -> None:
    ready = of_first(tmp_path, exact_answer=[["m" * 101], *([f"item {number}"] for number in range(101))])
    assert len(ready.entries[2]["exact_answer"]) == 100
    assert [one.fault for one in ready.faults] == [
        "1 entry above 100 characters left out",
        "101 entries, cut to 100",
    ]


def test_a_run_of_questions_is_told_from_others(tmp_path: Path) -> None:
    other = tmp_path / "archehr"
    other.mkdir()
    assert family_of(make_run(tmp_path, []).path) == "questions"
    assert family_of(make_archehr_run(other, ["1"], [done("1")]).path) == "tasks"


def test_snippets_that_a_question_came_with_are_no_prediction(tmp_path: Path) -> None:
    run = make_run(tmp_path, ideal_lines(), documents={"phase": "b"})
    assert [one.task for one in score_run(run)] == ["yesno", "factoid", "list", "ideal"]


def test_one_phase_and_some_questions_can_be_scored_alone(tmp_path: Path) -> None:
    run = make_run(tmp_path, ideal_lines())
    ids = ",".join(line["case_id"] for line in ideal_lines()[:3])
    found = score_run(run, case_ids=ids, task="bioasq-a")
    assert [(one.task, len(one.case_ids)) for one in found] == [("documents", 3), ("snippets", 3)]


def test_a_run_without_anything_to_score_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(ScoringError, match="--cases QUESTIONS"):
        score_run(make_run(tmp_path, [failed(line) for line in ideal_lines()]))
