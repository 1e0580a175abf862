"""Records of scans: by the bytes of a file, for their owner, without a text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cases.load import find_cases
from cases.scans import ScanRecord, digests, keep_scan, keep_scans_of_parts, now, scan_of, unscanned
from storage.errors import InputError
from tests.evigraph import write_cases


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "evigraph" / "scans"


def record(path: Path, **fields: object) -> ScanRecord:
    (sha256,) = digests(find_cases([path]))
    return ScanRecord.model_validate({"sha256": sha256, "at": now(), "by": "a test", "cases": 2, **fields})


def test_a_scan_holds_for_these_bytes_wherever_they_lie(tmp_path: Path, state: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    write_cases(cases, 2)
    assert unscanned(find_cases([cases])) == [cases] and scan_of(cases) is None
    keep_scan(record(cases, kinds={"NAME": 3}))
    assert unscanned(find_cases([cases])) == []
    found = scan_of(cases)
    assert found is not None and (found.cases, found.kinds) == (2, {"NAME": 3})
    moved = cases.rename(tmp_path / "moved.jsonl")
    assert unscanned(find_cases([moved])) == []
    moved.write_bytes(moved.read_bytes() + b"\n")
    assert unscanned(find_cases([moved])) == [moved]


def test_a_record_is_for_its_owner_and_holds_no_text(tmp_path: Path, state: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    write_cases(cases, 2)
    keep_scan(record(cases))
    (file,) = state.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600 and state.stat().st_mode & 0o077 == 0
    for line in cases.read_text().splitlines():
        case = json.loads(line)
        assert not [text for text in (case["narrative"], *case["sentences"]) if text in file.read_text()]


@pytest.mark.parametrize("content", ["", "{}", "null", '{"sha256": "another"}'])
def test_a_damaged_record_is_none(tmp_path: Path, state: Path, content: str) -> None:
    cases = tmp_path / "cases.jsonl"
    write_cases(cases, 2)
    made = record(cases)
    keep_scan(made)
    (state / f"{made.sha256}.json").write_text(content)
    assert unscanned(find_cases([cases])) == [cases]
    other = record(cases).model_copy(update={"sha256": "0" * 64}).model_dump_json()
    (state / f"{made.sha256}.json").write_text(other)
    assert unscanned(find_cases([cases])) == [cases]


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.xml: No such file"):
        scan_of(tmp_path / "gone.xml")


def test_parts_of_scanned_files_are_scanned_and_parts_of_others_are_not(tmp_path: Path) -> None:
    first, second, part = (tmp_path / f"{name}.jsonl" for name in ("first", "second", "part"))
    for count, path in enumerate((first, second, part), start=1):
        write_cases(path, count)
    keep_scan(record(first))
    keep_scans_of_parts([first, second], [part])
    keep_scans_of_parts([], [part])
    assert scan_of(part) is None
    keep_scan(record(second))
    keep_scans_of_parts([first, second], [part])
    found = scan_of(part)
    assert found is not None and len(found.made_of) == 2
