"""What holds for all submissions."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases.errors import InputError
from cases.submissions.container import packed
from cases.submissions.fault import Fault
from cases.submissions.forms import entry_of, form_faults, prediction_of
from cases.submissions.prediction import Prediction, Task
from cases.submissions.read import read_submission
from cases.submissions.task import TASKS, possible_tasks
from cases.submissions.validate import find_faults
from cases.submissions.word_limits import WORD_LIMITS, cut
from cases.submissions.write import write_submission
from cases.texts import one_line
from tests.cases.submissions.strategies import json_values, predictions


def written_and_read(task: Task, given_: list[Prediction], suffix: str) -> list[Prediction]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"submission{suffix}"
        write_submission(path, task, given_)
        return read_submission(path, task)


def as_scored(task: Task, prediction: Prediction) -> object:
    """What must come back: the part as it was given, but for the silent rules of texts."""
    match task:
        case "2025":
            lines = [
                (one_line(sentence.text).replace("|", "/"), sentence.citations)
                for sentence in prediction.cited_answer or ()
            ]
            return [
                (f"{text}." if text and text[-1] not in ".!?" else text, cited)
                for text, cited in lines
                if text or cited
            ]
        case "2026-1":
            return cut((prediction.question or "").strip(), task)
        case "2026-2":
            return prediction.evidence
        case "2026-3":
            return cut((prediction.answer or "").strip(), task)
        case "2026-4":
            return set(prediction.links or ())


def part(task: Task, prediction: Prediction) -> object:
    match task:
        case "2025":
            return [(sentence.text, sentence.citations) for sentence in prediction.cited_answer or ()]
        case "2026-1":
            return prediction.question
        case "2026-2":
            return prediction.evidence
        case "2026-3":
            return prediction.answer
        case "2026-4":
            return set(prediction.links or ())


@pytest.mark.parametrize("task", TASKS)
@given(data=st.data())
def test_what_is_written_is_read(task: Task, data: st.DataObject) -> None:
    given_ = data.draw(predictions(task))
    read = written_and_read(task, given_, data.draw(st.sampled_from([".json", ".zip"])))
    assert [(one.case_id, part(task, one)) for one in read] == [
        (one.case_id, as_scored(task, one)) for one in given_
    ]


@pytest.mark.parametrize("task", TASKS)
@given(data=st.data())
def test_what_was_read_is_read_again_unchanged(task: Task, data: st.DataObject) -> None:
    read = written_and_read(task, data.draw(predictions(task)), ".json")
    assert written_and_read(task, read, ".json") == read


@pytest.mark.parametrize("task", TASKS)
@given(data=st.data())
def test_a_written_submission_is_never_refused(task: Task, data: st.DataObject) -> None:
    entries = [entry_of(one, task) for one in data.draw(predictions(task))]
    assert [fault for fault in find_faults(entries, task, None) if fault.severity == "refused"] == []
    assert task in possible_tasks(entries)


@pytest.mark.parametrize("task", TASKS)
@given(entries=st.lists(json_values, max_size=3))
def test_no_entry_breaks_the_check_and_what_passes_can_be_read(task: Task, entries: list[object]) -> None:
    faults = find_faults(entries, task, None)
    assert all(isinstance(fault, Fault) and fault.fault for fault in faults)
    for number, entry in enumerate(entries, start=1):
        if isinstance(entry, dict) and not form_faults(entry, number, task):
            assert prediction_of(entry, task).case_id == entry["case_id"]


@given(content=st.binary(max_size=60) | json_values.map(lambda value: packed([value], ".zip")))
def test_any_bytes_are_read_or_refused_in_one_line(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "submission.json"
        path.write_bytes(content)
        try:
            read_submission(path, "2026-2")
        except InputError as error:
            assert "\n" not in str(error)


@given(text=st.text(), task=st.sampled_from([*WORD_LIMITS]))
def test_cutting_twice_is_cutting_once(text: str, task: Task) -> None:
    assert cut(cut(text, task), task) == cut(text, task)
