from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cases.errors import InputError
from cases.submission import (
    write_submission_2025,
    write_submission_2026_answer,
    write_submission_2026_evidence,
)


def test_2025_lines(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    sentences = [("She\nslept|ate.", ["1", "2"]), ("So.", []), (" ", [])]
    write_submission_2025(path, [("7", sentences)])
    assert json.loads(path.read_text()) == [{"case_id": "7", "answer": "She slept/ate. |1,2|\nSo."}]


def test_2026_evidence(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_submission_2026_evidence(path, [("7", ("1", "2")), ("8", ())])
    assert json.loads(path.read_text()) == [
        {"case_id": "7", "prediction": ["1", "2"]},
        {"case_id": "8", "prediction": []},
    ]


def test_2026_answer(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_submission_2026_answer(path, [("7", "לב 🫀\n{x}")])
    assert json.loads(path.read_text(encoding="utf-8")) == [{"case_id": "7", "prediction": "לב 🫀\n{x}"}]


def test_zip_holds_only_the_submission(tmp_path: Path) -> None:
    path = tmp_path / "out.zip"
    write_submission_2026_answer(path, [("7", "So.")])
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["submission.json"]
        assert json.loads(archive.read("submission.json")) == [{"case_id": "7", "prediction": "So."}]


def test_equal_submissions_are_equal_zips(tmp_path: Path) -> None:
    for name in ("a.zip", "b.zip"):
        write_submission_2026_answer(tmp_path / name, [("7", "So.")])
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_lone_surrogate_of_a_model_does_not_stop_the_writing(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_submission_2026_answer(path, [("7", "So\ud83d.")])
    assert json.loads(path.read_text()) == [{"case_id": "7", "prediction": "So?."}]


def test_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    def answers() -> Iterator[tuple[str, str]]:
        yield "7", "So."
        raise RuntimeError

    path = tmp_path / "out.json"
    path.write_text("old")
    with pytest.raises(RuntimeError):
        write_submission_2026_answer(path, answers())
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("out.json", "old")]


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: No such file"):
        write_submission_2026_answer(tmp_path / "none" / "out.json", [])
