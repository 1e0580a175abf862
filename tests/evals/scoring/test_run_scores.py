"""A run's official score needs every case of its key, whether the run has it or not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cases.submissions.archehr import Task
from evals.run_scores import score_run
from evals.scoring.gold import ScoringError
from evals.scoring.score import ArchehrScores
from runs.record.folder import RunFolder
from tests.evals.scoring.runs import done, failed, make_run
from tests.evigraph import edit_manifest

LABELS = {"1": "essential", "2": "not-relevant", "3": "supplementary"}


def key_of(folder: Path, case_ids: str) -> Path:
    answers = [{"sentence_id": id_, "relevance": label} for id_, label in LABELS.items()]
    path = folder / "key.json"
    path.write_text(json.dumps([{"case_id": id_, "answers": answers} for id_ in case_ids]))
    return path


def scored(run: RunFolder, task: Task = "2026-2", case_ids: str | None = None) -> ArchehrScores:
    (one,) = score_run(run, task=task, case_ids=case_ids)
    assert isinstance(one, ArchehrScores)
    assert ("overall_score" in one.as_json()["values"]) == (one.overall_score is not None)
    return one


def test_a_run_of_all_cases_has_an_official_score(tmp_path: Path) -> None:
    one = scored(make_run(tmp_path, "789", map(done, "789"), keys=[key_of(tmp_path, "789")]))
    assert one.unscored == ()
    assert one.overall_score == pytest.approx(200 / 3)


def test_a_limited_run_has_none_and_names_what_it_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path, "789", [done("7")], limit=1, keys=[key_of(tmp_path, "789")])
    one = scored(run)
    assert (one.unscored, one.overall_score) == (("8", "9"), None)
    assert one.notes[-1] == "The run was limited to 1 case (--limit)."
    assert one.values["strict_micro_f1"] == pytest.approx(200 / 3)


def test_a_part_that_is_asked_for_is_whole(tmp_path: Path) -> None:
    run = make_run(tmp_path, "789", [done("7")], limit=1, keys=[key_of(tmp_path, "789")])
    one = scored(run, case_ids="7")
    assert (one.unscored, one.overall_score is not None) == ((), True)


def test_a_case_that_cannot_be_read_counts_where_the_key_labels_it(tmp_path: Path) -> None:
    lines = [done("7"), failed("8", "invalid_input"), failed("9", "invalid_input")]
    run = make_run(tmp_path, "789", lines, unreadable="89", keys=[key_of(tmp_path, "78")])
    one = scored(run)
    assert (one.unscored, one.overall_score) == (("8",), None)


def test_a_case_that_cannot_be_read_counts_where_its_labels_stand_beside_its_texts(tmp_path: Path) -> None:
    lines = [done("7"), failed("8", "invalid_input")]
    one = scored(make_run(tmp_path, "78", lines, labels=LABELS, unreadable="8"))
    assert (one.unscored, one.overall_score) == (("8",), None)


def test_without_the_case_files_a_key_alone_is_the_whole(tmp_path: Path) -> None:
    run = make_run(tmp_path, "78", [done("7")], keys=[key_of(tmp_path, "78")])
    (tmp_path / "cases.jsonl").unlink()
    one = scored(run)
    assert (one.unscored, one.overall_score) == (("8",), None)
    assert one.values["strict_micro_f1"] == pytest.approx(200 / 3)


@pytest.mark.parametrize(
    ("ids", "fault"),
    [("9-7", "'9-7' is not a range; write the smaller id first"), ("", "--case-ids names no case")],
)
def test_ids_that_name_no_case_are_refused(tmp_path: Path, ids: str, fault: str) -> None:
    run = make_run(tmp_path, "7", [done("7")], keys=[key_of(tmp_path, "7")])
    with pytest.raises(ScoringError, match=fault):
        scored(run, case_ids=ids)


def test_verdicts_without_a_key_ask_for_the_case_file_that_has_it(tmp_path: Path) -> None:
    run = make_run(tmp_path, "7", [done("7")])
    edit_manifest(run.path, system="timeaware", recipe={"system": "timeaware"})
    with pytest.raises(ScoringError, match=r"has a verdict in its case file\. Give the file"):
        score_run(RunFolder(run.path))


def test_questions_stand_in_the_case_file_whatever_the_key_says(tmp_path: Path) -> None:
    lines = [done("7", interpreted_question="Why?"), failed("8", "invalid_input")]
    run = make_run(tmp_path, "78", lines, unreadable="8", keys=[key_of(tmp_path, "7")])
    assert scored(run, "2026-1").unscored == ("8",)


def test_a_case_of_the_key_that_the_case_file_lacks_is_missing(tmp_path: Path) -> None:
    one = scored(make_run(tmp_path, "7", [done("7")], keys=[key_of(tmp_path, "78")]))
    assert (one.unscored, one.overall_score) == (("8",), None)
