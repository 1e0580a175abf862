"""Documents from JSON lines, in this project's fields and in those of public data sets."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from cases.documents import Document, Skipped
from cases.formats.document_files import find_documents, read_documents_jsonl
from storage.errors import InputError
from storage.files import Meter


def read(path: Path, start: int = 0) -> list[Document | Skipped]:
    return list(read_documents_jsonl(path, start, Meter()))


def lines(path: Path, *given: Any) -> Path:
    texts = [one if isinstance(one, str) else json.dumps(one) for one in given]
    path.write_text("\n".join(texts) + "\n", "utf-8")
    return path


def one(tmp_path: Path, given: Any) -> Document | Skipped:
    (found,) = read(lines(tmp_path / "d.jsonl", given))
    return found


def test_our_own_fields(tmp_path: Path) -> None:
    fields = {"id": 7, "title": "T", "text": "X", "year": 1999, "citations": 3, "study_types": ["Review"]}
    expected = Document("7", "T", "X", 1999, 3, ("Review",), "Journal")
    assert one(tmp_path, {**fields, "source": "Journal", "other": "left alone"}) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"pmcid": "12", "pmid": "34", "title": "T", "abstract": "X", "journal": "J", "year": 2002},
            Document("34", "T", "X", 2002, source="J"),
        ),
        ({"pmcid": "12", "pmid": None, "title": "T", "abstract": "X"}, Document("PMC12", "T", "X")),
        (
            {"pmid": "5", "year": "2011", "sections": ["A.", "B."], "labels": []},
            Document("5", "", "A. B.", 2011),
        ),
        ({"pmid": "5", "year": None, "sections": ["A."]}, Document("5", "", "A.")),
        (
            {"doc_id": 9, "title": "T", "abstract": ["A.", " B."], "structured": True},
            Document("9", "T", "A. B."),
        ),
    ],
    ids=["evidence inference", "without pmid", "pubmedqa", "without year", "scifact"],
)
def test_fields_of_public_data(tmp_path: Path, given: Any, expected: Document) -> None:
    assert one(tmp_path, given) == expected


@pytest.mark.parametrize(
    ("given", "fault", "reason"),
    [
        ("{", "cannot be read as JSON", "unreadable"),
        ("[1]", "not a JSON object", "unreadable"),
        ({"title": "T"}, "id: is missing", "unreadable"),
        ({"id": "1", "title": " ", "text": ""}, "'1' has neither title nor text", "empty"),
        ({"id": "1", "text": "X", "year": "soon"}, "year: 'soon'", "unreadable"),
        ({"id": "1", "text": "X", "year": 12}, "year: 12", "unreadable"),
        ({"id": "1", "text": 3}, "text: 3", "unreadable"),
        ('{"id": "1", "text": "\\ud800"}', "cannot be read as JSON", "unreadable"),
    ],
)
def test_a_bad_line_is_skipped_with_its_place(tmp_path: Path, given: Any, fault: str, reason: str) -> None:
    path = lines(tmp_path / "d.jsonl", {"id": "a", "text": "A"}, given, "", {"id": "b", "text": "B"})
    first, bad, last = read(path)
    assert isinstance(first, Document)
    assert isinstance(last, Document)
    assert isinstance(bad, Skipped)
    assert (bad.place, bad.reason) == (f"{path}: line 2", reason)
    assert fault in bad.fault


def test_reading_goes_on_after_so_many_records(tmp_path: Path) -> None:
    path = lines(tmp_path / "d.jsonl", {"id": "a", "text": "A"}, "{", "", {"id": "b", "text": "B"})
    assert read(path, 1) == read(path)[1:]
    assert read(path, 2) == read(path)[2:]
    assert read(path, 3) == []


def test_a_folder_gives_its_files_of_documents_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file of documents in this folder \(\.xml"):
        find_documents([tmp_path])
    for name in ("b.XML.gz", "a.jsonl", ".c.jsonl", "notes.txt"):
        (tmp_path / name).touch()
    found = (tmp_path / "a.jsonl", tmp_path / "b.XML.gz")
    assert find_documents([tmp_path, tmp_path / "a.jsonl"]) == found
    for name, fault in (("notes.txt", "documents are read from"), ("gone", "no such file or folder")):
        with pytest.raises(InputError, match=fault):
            find_documents([tmp_path / name])


@pytest.mark.parametrize("damage", ["cut", "flipped", "no gzip"])
def test_damage_ends_a_packed_file_and_keeps_what_stood_before(tmp_path: Path, damage: str) -> None:
    documents = [{"id": str(number), "text": f"{number * 7919 % 1000003} words"} for number in range(6_000)]
    content = bytearray(gzip.compress("".join(json.dumps(one) + "\n" for one in documents).encode()))
    path = tmp_path / "d.jsonl.gz"
    if damage == "cut":
        del content[-len(content) // 3 :]
    elif damage == "flipped":
        content[len(content) // 2] ^= 255
    else:
        content = bytearray(b"plain text")
    path.write_bytes(content)
    *before, end = read(path)
    assert isinstance(end, Skipped)
    assert end.reason == "damaged file"
    assert end.place == f"{path}: after line {len(before)}"
    assert len(before) > 1000 or damage == "no gzip"
    # A flipped bit is noticed at the end, by the checksum: what it garbled first is skipped where it can be.
    sound = before[: len(before) // 3]
    assert [one.id for one in sound if isinstance(one, Document)] == [str(n) for n in range(len(sound))]


def test_a_line_beyond_reason_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("storage.files", "cases.formats.document_files"):
        monkeypatch.setattr(f"{module}.MAX_LINE_BYTES", 1 << 21)
    path = lines(tmp_path / "d.jsonl", {"id": "a", "text": "A" * (5 << 20)}, {"id": "b", "text": "B"})
    bad, good = read(path)
    assert isinstance(bad, Skipped)
    assert bad.fault == "longer than 2 MB"
    assert isinstance(good, Document)
