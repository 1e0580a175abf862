from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cases.submissions.archehr import Task
from evals.submissions import RunSubmission, prepare
from runs.record.folder import RunFolder
from tests.evals.scoring.runs import done, failed, make_run
from tests.evigraph import edit_manifest


def prepared(
    tmp_path: Path, task: Task, *lines: dict[str, Any], cases: str = "78", fill: bool = False
) -> RunSubmission:
    return prepare(make_run(tmp_path, cases, lines), task, fill_missing=fill)


def refusals(ready: RunSubmission) -> list[tuple[str, str]]:
    assert ready.refused
    return [(fault.line, fault.remedy) for fault in ready.faults if fault.severity == "refused"]


def test_a_finished_run_can_be_handed_in_in_the_order_of_its_cases(tmp_path: Path) -> None:
    ready = prepared(tmp_path, "2026-2", done("8"), done("7"))
    assert (ready.faults, ready.filled) == ((), ())
    assert [(one["case_id"], one["prediction"]) for one in ready.entries] == [
        ("7", ["1", "3"]),
        ("8", ["1", "3"]),
    ]


def test_failed_and_missing_cases_are_named_with_their_remedy(tmp_path: Path) -> None:
    run = tmp_path / "run"
    lines = [done("7"), failed("8"), failed("x", "invalid_input"), done("y", status="waiting")]
    ready = prepared(tmp_path, "2026-2", *lines, cases="789")
    assert refusals(ready) == [
        ("case '8': failed: timeout", f"evigraph retry {run}"),
        ("case 'x': failed: too late", f"Correct the case file, then: evigraph retry {run} --corrected"),
        ("case 'y': waits for a person", f"evigraph review {run} y"),
        ("case '9': not run yet", f"evigraph resume {run}"),
    ]


def test_an_unfinished_run_is_one_fault(tmp_path: Path) -> None:
    ready = prepared(tmp_path, "2026-2", done("7"), cases="789")
    run = tmp_path / "run"
    assert refusals(ready) == [
        (f"{run}: 2 of 3 cases not run yet ('8', ...)", f"evigraph resume {run}"),
    ]


@pytest.mark.parametrize(
    ("task", "field"),
    [
        ("2025", "alignment.answer: generated"),
        ("2026-1", "question.interpret: always"),
        ("2026-3", "stop_after: answer"),
        ("2026-4", "alignment.answer: clinician"),
    ],
)
@pytest.mark.parametrize("fill", [False, True])
def test_a_part_that_no_case_has_names_the_recipe_field(
    tmp_path: Path, task: Task, field: str, fill: bool
) -> None:
    ready = prepared(tmp_path, task, done("7", answer=None), done("8", answer=None), fill=fill)
    ((line, remedy),) = refusals(ready)
    assert "the run has no" in line
    assert remedy == f"Run with a recipe that has {field}"


def test_a_part_that_one_case_lacks_names_the_case(tmp_path: Path) -> None:
    ready = prepared(tmp_path, "2026-3", done("7", answer="word " * 76), done("8", answer=None))
    assert refusals(ready)[0][0] == "case '8': it has no answers"
    assert [one.severity for one in ready.faults] == ["refused", "penalised"]


@pytest.mark.parametrize("task", ["2026-2", "2026-4"])
def test_lists_can_be_filled(tmp_path: Path, task: Task) -> None:
    aligned = done("7", aligned_answer="clinician", alignment={"1": ["1"]})
    ready = prepared(tmp_path, task, aligned, failed("8"), cases="789", fill=True)
    assert (ready.refused, ready.filled) == (False, ("8", "9"))
    assert [entry["prediction"] for entry in ready.entries][1:] == [[], []]


def test_a_run_without_any_case_done_names_each(tmp_path: Path) -> None:
    assert [line for line, _ in refusals(prepared(tmp_path, "2026-2", failed("7")))] == [
        "case '7': failed: timeout",
        "case '8': not run yet",
    ]


def test_a_run_without_any_case_done_is_not_filled(tmp_path: Path) -> None:
    ready = prepared(tmp_path, "2026-2", failed("7"), fill=True)
    assert refusals(ready)[0][0] == f"{tmp_path / 'run'}: no case is done"


def test_texts_cannot_be_filled(tmp_path: Path) -> None:
    assert prepared(tmp_path, "2026-3", done("7"), failed("8"), fill=True).refused


def test_ids_are_held_against_the_runs_own_cases(tmp_path: Path) -> None:
    strange = done("8", labels={"9": "essential"})
    assert refusals(prepared(tmp_path, "2026-2", done("7"), strange)) == [
        (
            "case '8': prediction: '9' is not a sentence of the note",
            "Name single ids, as the case has them",
        )
    ]


def test_what_is_only_penalised_does_not_stand_in_the_way(tmp_path: Path) -> None:
    ready = prepared(tmp_path, "2026-3", done("7"), done("8", answer="word " * 76))
    assert not ready.refused
    assert [fault.line for fault in ready.faults] == ["case '8': prediction: 76 words, cut to the first 75"]


def test_an_answer_without_any_citation_is_refused(tmp_path: Path) -> None:
    aligned = {"answer_sentences": [{"id": "1", "text": "So."}], "aligned_answer": "generated"}
    ready = prepared(
        tmp_path, "2025", done("7", **aligned, alignment={"1": ["1"]}), done("8", **aligned, alignment={})
    )
    assert refusals(ready)[0][0] == "case '8': answer: no citation in it"


def test_an_id_that_the_form_cannot_hold_is_refused(tmp_path: Path) -> None:
    aligned = {"answer_sentences": [{"id": "1", "text": "So."}], "aligned_answer": "generated"}
    ready = prepared(tmp_path, "2025", done("7", **aligned, alignment={"1": ["1,2"]}), cases="7")
    assert "cannot hold a citation of '1,2'" in refusals(ready)[0][0]


def test_a_limited_run_is_refused_as_its_check_would_be(tmp_path: Path) -> None:
    ready = prepare(make_run(tmp_path, "789", [done("7")], limit=1), "2026-2")
    assert refusals(ready) == [
        (
            f"{tmp_path / 'run'}: 2 cases of the test set not in the run ('8', ...)",
            "The run was limited to 1 case (--limit): run them all",
        )
    ]


@pytest.mark.parametrize(
    ("fields", "remedy"),
    [
        ({}, "Run every case of the key"),
        ({"inputs": {"shard": {"index": 1, "count": 4}}}, "The run is shard 1/4: merge all shards first"),
        (
            {"forked_from": {"run": "whole", "case_id": "7", "node": "label", "step": 1}},
            "Submit the run that it branched off: whole",
        ),
    ],
)
def test_what_left_a_case_of_the_key_out_is_named(
    tmp_path: Path, fields: dict[str, Any], remedy: str
) -> None:
    key = tmp_path / "key.json"
    labels = [{"sentence_id": id_, "relevance": "essential"} for id_ in "123"]
    key.write_text(json.dumps([{"case_id": id_, "answers": labels} for id_ in "7x"]))
    run = make_run(tmp_path, "7", [done("7")], keys=[key])
    inputs = run.manifest.inputs.model_dump(mode="json") | fields.get("inputs", {})
    edit_manifest(run.path, **{**fields, "inputs": inputs})
    ((line, said),) = refusals(prepare(RunFolder(run.path), "2026-2"))
    assert line.endswith("1 case of the test set not in the run ('x')")
    assert said.startswith(remedy)


def test_what_a_limited_run_left_out_can_be_filled(tmp_path: Path) -> None:
    ready = prepare(make_run(tmp_path, "789", [done("7")], limit=1), "2026-2", fill_missing=True)
    assert (ready.refused, ready.filled, len(ready.entries)) == (False, ("8", "9"), 3)


@pytest.mark.parametrize("other", [done("8"), failed("8")])
def test_a_case_that_the_key_does_not_have_is_refused_filled_or_not(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    key = tmp_path / "key.json"
    labels = [{"sentence_id": id_, "relevance": "essential"} for id_ in "123"]
    key.write_text(json.dumps([{"case_id": "7", "answers": labels}]))
    run = make_run(tmp_path, "78", [done("7"), other], keys=[key])
    assert refusals(prepare(run, "2026-2", fill_missing=True)) == [
        ("case '8': not a case of the key", "Leave it out")
    ]
