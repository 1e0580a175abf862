from __future__ import annotations

import json
from pathlib import Path

import pytest

from ranking.examples import Example
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


PLAIN = {"id": 1, "query": "Why?", "sentences": ["It\nis.", ""], "labels": [1, 0]}


def test_full_line(tmp_path: Path) -> None:
    line = PLAIN | {"document_id": "d", "group": 3, "label_source": "weak"}
    assert load_examples([write_lines(tmp_path / "a.jsonl", line)]) == [
        Example("1", "Why?", ("It is.", ""), (True, False), "d", "3", "weak")
    ]


def test_evidence_can_be_given_as_positions(tmp_path: Path) -> None:
    lines = [
        {"id": "a", "query": "q", "sentences": ["x", "y"], "evidence": [1]},
        {"id": "b", "query": "q", "sentences": ["x", "y"], "evidence": []},
        {"id": "c", "query": "q", "sentences": ["x", "y"]},
    ]
    examples = load_examples([write_lines(tmp_path / "a.jsonl", *lines)])
    assert [one.labels for one in examples] == [(False, True), (False, False), None]


def test_equal_documents_are_one_and_are_not_parted(tmp_path: Path) -> None:
    lines = [PLAIN | {"id": number} for number in range(2)]
    first, second = load_examples([write_lines(tmp_path / "a.jsonl", *lines)])
    assert first.document_id == second.document_id == first.group == second.group


def test_a_byte_order_mark_and_blank_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f"\ufeff\n{json.dumps(PLAIN)}\n\n", encoding="utf-8")
    assert len(load_examples([path])) == 1


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"labels": [1]}, "labels: 1 for 2 sentences. Give one for each"),
        ({"labels": [1, 2]}, "labels[1]: 2 should be a valid boolean"),
        ({"evidence": [0]}, "labels and evidence: both are given"),
        ({"labels": None, "evidence": [2]}, "evidence: sentence 2 of 2, counted from 0"),
        ({"labels": None, "evidence": [-1]}, "evidence: sentence -1 of 2, counted from 0"),
        ({"sentences": [], "labels": []}, "sentences: is empty"),
        ({"sentences": "text"}, "sentences: 'text' should be a valid list"),
        ({"query": " "}, "query: is empty"),
        ({"label": [1, 0]}, "label: unknown field; did you mean 'labels'?"),
        ({"label_source": "mine"}, "label_source: 'mine' is not one of gold, weak"),
    ],
)
def test_a_wrong_line_is_named_by_number_and_field(
    tmp_path: Path, changes: dict[str, object], told: str
) -> None:
    path = write_lines(tmp_path / "a.jsonl", PLAIN | {"id": 0}, PLAIN | changes)
    assert fault(path).startswith(f"{path}: line 2: {told}")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b'{"id": 1,', "line 1, column 10: "),
        (b"[1]", "line 1: not a JSON object"),
        (b'{"query": "\xff"}', "line 1, byte 12: not UTF-8"),
        (b"\x1f\x8b\x08nonsense", "damaged gzip file"),
    ],
)
def test_damaged_files_are_told_in_one_line(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    assert fault(path).startswith(f"{path}: {told}")
    if not content.strip():
        assert fault(path, "jsonl") == f"{path}: no example in it. Put one JSON object on each line"


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.95])
def test_a_gzip_file_that_was_cut_off_is_refused(tmp_path: Path, kept: float) -> None:
    path = write_lines(tmp_path / "a.jsonl.gz", *(PLAIN | {"id": number} for number in range(500)))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    assert "damaged gzip file" in fault(path)
