from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cases.submissions.archehr import CitedSentence, Prediction, Task
from cases.submissions.tasks import ARCHEHR, TASKS
from storage.errors import InputError


def written(tmp_path: Path, task: Task, *predictions: Prediction) -> Any:
    path = tmp_path / "out.json"
    ARCHEHR[task].write(path, predictions)
    return json.loads(path.read_text("utf-8"))


def test_2025_lines(tmp_path: Path) -> None:
    sentences = (
        CitedSentence("She\nslept|ate.", ("1", "2")),
        CitedSentence("So.", ()),
        CitedSentence(" ", ()),
        CitedSentence("", ("3",)),
    )
    assert written(tmp_path, "2025", Prediction("7", cited_answer=sentences)) == [
        {"case_id": "7", "answer": "She slept/ate. |1,2|\nSo.\n|3|"}
    ]


@pytest.mark.parametrize("id_", ["1,2", "1|2", " 1", "1\n", "1\n2", ""])
def test_2025_refuses_ids_that_would_be_read_as_something_else(tmp_path: Path, id_: str) -> None:
    prediction = Prediction("7", cited_answer=(CitedSentence("So.", (id_,)),))
    with pytest.raises(ValueError, match=r"case '7': the form of 2025 cannot hold"):
        written(tmp_path, "2025", prediction)


def test_2026_1_question(tmp_path: Path) -> None:
    assert written(tmp_path, "2026-1", Prediction("7", question="Why?")) == [
        {"case_id": "7", "prediction": "Why?"}
    ]


def test_2026_2_evidence(tmp_path: Path) -> None:
    assert written(
        tmp_path, "2026-2", Prediction("7", evidence=("1", "2")), Prediction("8", evidence=())
    ) == [
        {"case_id": "7", "prediction": ["1", "2"]},
        {"case_id": "8", "prediction": []},
    ]


def test_2026_3_answer(tmp_path: Path) -> None:
    text = "לב 🫀\n{x}"
    assert written(tmp_path, "2026-3", Prediction("7", answer=text)) == [{"case_id": "7", "prediction": text}]


def test_2026_4_has_one_entry_for_each_answer_sentence(tmp_path: Path) -> None:
    links = (("1", "3"), ("2", "3"), ("1", "4"))
    assert written(tmp_path, "2026-4", Prediction("7", links=links)) == [
        {
            "case_id": "7",
            "prediction": [
                {"answer_id": "1", "evidence_id": ["3", "4"]},
                {"answer_id": "2", "evidence_id": ["3"]},
            ],
        }
    ]


@pytest.mark.parametrize("task", TASKS)
def test_a_missing_part_names_its_case_and_writes_nothing(tmp_path: Path, task: Task) -> None:
    with pytest.raises(ValueError, match="case '7': nothing is predicted"):
        written(tmp_path, task, Prediction("7"))
    assert not list(tmp_path.iterdir())


def test_the_zip_holds_only_the_submission(tmp_path: Path) -> None:
    path = tmp_path / "out.zip"
    ARCHEHR["2026-3"].write(path, [Prediction("7", answer="So.")])
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["submission.json"]
        assert json.loads(archive.read("submission.json")) == [{"case_id": "7", "prediction": "So."}]


def test_equal_predictions_are_equal_zips(tmp_path: Path) -> None:
    for name in ("a.zip", "b.zip"):
        ARCHEHR["2026-3"].write(tmp_path / name, [Prediction("7", answer="So.")])
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_lone_surrogate_of_a_model_does_not_stop_the_writing(tmp_path: Path) -> None:
    assert written(tmp_path, "2026-3", Prediction("7", answer="So\ud83d."))[0]["prediction"] == "So?."


def test_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    def predictions() -> Iterator[Prediction]:
        yield Prediction("7", answer="So.")
        raise RuntimeError

    path = tmp_path / "out.json"
    path.write_text("old")
    with pytest.raises(RuntimeError):
        ARCHEHR["2026-3"].write(path, predictions())
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("out.json", "old")]


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: No such file"):
        ARCHEHR["2026-3"].write(tmp_path / "none" / "out.json", [])
