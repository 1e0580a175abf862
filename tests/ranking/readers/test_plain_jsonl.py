from __future__ import annotations

import json
from pathlib import Path

import pytest

from ranking.examples import Example
from ranking.readers.load import load_examples
from tests.ranking.readers.files import fault, write_lines

LINE = {"id": 1, "query": "Why?", "sentences": ["It\nis.", ""], "labels": [1, 0]}


def test_full_line(tmp_path: Path) -> None:
    line = LINE | {"document_id": "d", "group": 3, "label_source": "weak"}
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
    lines = [LINE | {"id": number} for number in range(2)]
    first, second = load_examples([write_lines(tmp_path / "a.jsonl", *lines)])
    assert first.document_id == second.document_id == first.group == second.group


def test_packed_files_are_read_whatever_their_name(tmp_path: Path) -> None:
    packed = write_lines(tmp_path / "a.jsonl.gz", LINE)
    assert load_examples([packed]) == load_examples([packed.rename(tmp_path / "b.jsonl")])


def test_a_byte_order_mark_and_blank_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f"\ufeff\n{json.dumps(LINE)}\n\n", encoding="utf-8")
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
    path = write_lines(tmp_path / "a.jsonl", LINE | {"id": 0}, LINE | changes)
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


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.95])
def test_a_gzip_file_that_was_cut_off_is_refused(tmp_path: Path, kept: float) -> None:
    path = write_lines(tmp_path / "a.jsonl.gz", *(LINE | {"id": number} for number in range(500)))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    assert "damaged gzip file" in fault(path)
