"""What holds for all submissions."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases.submissions.archehr import Prediction, Task
from cases.submissions.container import packed
from cases.submissions.task import Fault
from cases.submissions.tasks import ARCHEHR, TASKS, possible_archehr
from cases.submissions.texts import WORD_LIMITS, TextTask, cut
from cases.texts import one_line
from storage.errors import InputError
from tests.cases.submissions.strategies import json_values, predictions

pytestmark = pytest.mark.slow


def written_and_read(task: Task, given_: list[Prediction], suffix: str) -> list[Prediction]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"submission{suffix}"
        ARCHEHR[task].write(path, given_)
        return ARCHEHR[task].read(path)


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
            return cut((prediction.question or "").strip(), "2026-1")
        case "2026-2":
            return prediction.evidence
        case "2026-3":
            return cut((prediction.answer or "").strip(), "2026-3")
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
    entries = [ARCHEHR[task].entry_of(one) for one in data.draw(predictions(task))]
    assert [fault for fault in ARCHEHR[task].find_faults(entries, None) if fault.severity == "refused"] == []
    assert task in possible_archehr(entries)


@pytest.mark.parametrize("task", TASKS)
@given(entries=st.lists(json_values, max_size=3))
def test_no_entry_breaks_the_check_and_what_passes_can_be_read(task: Task, entries: list[object]) -> None:
    faults = ARCHEHR[task].find_faults(entries, None)
    assert all(isinstance(fault, Fault) and fault.fault for fault in faults)
    for number, entry in enumerate(entries, start=1):
        if isinstance(entry, dict) and not ARCHEHR[task].form_faults(entry, number):
            assert ARCHEHR[task].prediction_of(entry).case_id == entry["case_id"]


@given(content=st.binary(max_size=60) | json_values.map(lambda value: packed([value], ".zip")))
def test_any_bytes_are_read_or_refused_in_one_line(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "submission.json"
        path.write_bytes(content)
        try:
            ARCHEHR["2026-2"].read(path)
        except InputError as error:
            assert "\n" not in str(error)


@given(text=st.text(), task=st.sampled_from([*WORD_LIMITS]))
def test_cutting_twice_is_cutting_once(text: str, task: TextTask) -> None:
    assert cut(cut(text, task), task) == cut(text, task)
