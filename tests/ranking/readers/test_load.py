from __future__ import annotations

from pathlib import Path

import pytest

from ranking.readers.load import load_examples
from tests.ranking.readers.files import fault, write_lines

LINE = {"id": 1, "query": "Why?", "sentences": ["It is.", "So."], "labels": [1, 0]}


def test_a_folder_stands_for_its_files(tmp_path: Path) -> None:
    write_lines(tmp_path / "b.jsonl.gz", LINE | {"id": "b"})
    write_lines(tmp_path / "a.jsonl", LINE | {"id": "a"})
    write_lines(tmp_path / ".c.jsonl", LINE | {"id": "c"})
    assert [one.id for one in load_examples([tmp_path])] == ["a", "b"]


def test_data_sets_of_several_formats_are_read_together(tmp_path: Path) -> None:
    plain = write_lines(tmp_path / "a.jsonl", LINE)
    case = {"case_id": "c", "question": "Why?", "sentences": ["It is."]}
    cases = write_lines(tmp_path / "b.jsonl", case)
    assert [one.id for one in load_examples([cases, plain])] == ["c", "1"]


def test_an_id_is_used_once_over_all_files(tmp_path: Path) -> None:
    first, second = write_lines(tmp_path / "a.jsonl", LINE), write_lines(tmp_path / "b.jsonl", LINE)
    assert fault([first, second]) == (
        f"{second}: example id '1' is used twice and in {first}. Keep one of them"
    )
    assert "example id '1' is used twice. " in fault(write_lines(tmp_path / "c.jsonl", LINE, LINE))


def test_one_document_has_one_text(tmp_path: Path) -> None:
    lines = [LINE | {"document_id": 1}, LINE | {"id": 2, "document_id": 1, "sentences": ["x", "y"]}]
    told = fault(write_lines(tmp_path / "a.jsonl", *lines))
    assert "examples '1' and '2' are of document '1' and have other sentences" in told


def test_labels_without_any_evidence_are_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", LINE | {"labels": [0, 0]})
    assert fault(path) == f"{path}: none of the 2 labelled sentences is evidence: nothing to learn"


def test_a_format_that_nobody_knows_is_told(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", {"text": "x", "label": 1})
    assert fault(path) == (
        f"{path}: not of a known format: the fields of its first line are label, text."
        " Name the reader: one of scifact, evidence_inference, archehr, jsonl"
    )


@pytest.mark.parametrize("name", ["missing", "missing.jsonl"])
def test_a_missing_path_is_told(tmp_path: Path, name: str) -> None:
    assert fault(tmp_path / name, "jsonl") == f"{tmp_path / name}: no such file or folder"


def test_a_folder_without_data_is_told(tmp_path: Path) -> None:
    assert "no .xml, .jsonl or .jsonl.gz file in this folder" in fault(tmp_path)


def test_a_named_reader_reads_its_format_alone(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", {"claim": "x"})
    assert f"{path}: line 1: id: is missing" in fault(path, "jsonl")


def test_no_paths_are_told() -> None:
    assert fault([]) == "examples: no file was given"
