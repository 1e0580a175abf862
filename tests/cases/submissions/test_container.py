from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from cases.submissions.container import open_submission
from storage.errors import InputError


def refusal(path: Path) -> str:
    opened = open_submission(path)
    with pytest.raises(InputError) as caught:
        opened.demand_entries(path)
    assert opened.entries is None
    assert opened.faults[0].severity == "refused"
    assert opened.faults[0].line == caught.value.fault
    return caught.value.fault


def zipped(path: Path, **members: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), text)
    return path


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xef\xbb\xbf[]", "byte order mark"),
        (b'["caf\xe9"]', "byte 6 is not UTF-8"),
        ("[]".encode("utf-16"), "byte 1 is not UTF-8"),
        (b'[\n{"case_id": }]', "line 2, column 13"),
        (b"", "line 1, column 1"),
        (b'{"case_id": "1"}', "not an array but dict"),
        (b"[" * 100_000, "cannot be read as JSON"),
    ],
)
def test_what_cannot_be_loaded(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "submission.json"
    path.write_bytes(content)
    assert words in refusal(path)


def test_another_name_in_the_zip(tmp_path: Path) -> None:
    assert "no submission.json in the zip, but 'answers.json'" in refusal(
        zipped(tmp_path / "a.zip", answers_json="[]")
    )


def test_a_folder_in_the_zip(tmp_path: Path) -> None:
    assert "is in a folder of the zip: 'run/submission.json'" in refusal(
        zipped(tmp_path / "a.zip", run__submission_json="[]")
    )


def test_an_empty_zip(tmp_path: Path) -> None:
    assert "no submission.json in the zip, but nothing" in refusal(zipped(tmp_path / "a.zip"))


def test_no_zip_in_spite_of_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_text("[]")
    assert "not a readable zip" in refusal(path)


def test_a_damaged_zip(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", submission_json="[" + " " * 500 + "]")
    content = bytearray(path.read_bytes())
    content[60] ^= 0xFF
    path.write_bytes(content)
    assert "not a readable zip" in refusal(path)


def test_other_members_are_told_and_not_read(tmp_path: Path) -> None:
    opened = open_submission(zipped(tmp_path / "a.zip", submission_json="[]", notes_txt="x"))
    assert opened.entries == []
    (fault,) = opened.faults
    assert (fault.severity, fault.fault) == (
        "penalised",
        "the zip holds 'notes.txt' too, which the scorer does not read",
    )
