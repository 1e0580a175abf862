from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cases.load import find_cases
from cases.selection import Selection, Shard, parse_case_ids, parse_shard, shard_index
from storage.errors import InputError
from tests.evigraph import write_cases


def chosen(path: Path, selection: Selection) -> list[str]:
    return [case.id for case in find_cases([path], (), selection)]


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    return write_cases(tmp_path / "cases.jsonl", 40)


def test_every_case_is_in_exactly_one_shard(cases: Path) -> None:
    parts = [chosen(cases, Selection(shard=Shard(index, 8))) for index in range(8)]
    assert sorted(id_ for part in parts for id_ in part) == sorted(chosen(cases, Selection()))
    assert sum(map(bool, parts)) > 4


def test_a_hash_is_the_same_in_every_process_and_version() -> None:
    # Shards of a run that was begun years ago must go on as they are.
    assert [shard_index(id_, 8) for id_ in ("101", "k0", "Müller", "\ud800")] == [2, 6, 6, 4]
    code = "from cases.selection import shard_index; print(shard_index('k0', 8))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout == "6\n"


def test_ids_come_in_the_order_of_the_input(cases: Path) -> None:
    assert chosen(cases, Selection(("k7", "k3", "k3"))) == ["k3", "k7"]


def test_shards_share_the_first_of_the_chosen_cases(cases: Path) -> None:
    ids = tuple(f"k{number}" for number in range(30, 0, -1))
    wanted = Selection(ids, 10)
    assert chosen(cases, wanted) == [f"k{number}" for number in range(1, 11)]
    parts = [chosen(cases, Selection(ids, 10, Shard(index, 3))) for index in range(3)]
    assert sorted(id_ for part in parts for id_ in part) == sorted(chosen(cases, wanted))


def test_nothing_is_read_behind_what_is_taken(tmp_path: Path) -> None:
    path = write_cases(tmp_path / "cases.jsonl", 3)
    read: list[str] = []

    def ids() -> object:
        for line in path.read_text().splitlines():
            read.append(json.loads(line)["case_id"])
            yield read[-1]

    assert list(Selection(("k0",)).of(ids(), str)) == ["k0"]  # type: ignore[arg-type] # a generator of ids
    assert read == ["k0"]


def test_an_unknown_id_is_refused_by_name(cases: Path) -> None:
    with pytest.raises(InputError, match=r"has no case 'k99' of --case-ids. Did you mean 'k9'\?"):
        find_cases([cases], (), Selection(("k1", "k99"))).check()


def test_the_count_is_that_of_what_is_taken(cases: Path) -> None:
    summary = find_cases([cases], (), Selection(limit=7)).check()
    assert (summary.cases, summary.selected) == (40, 7)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("3/3", "counted from 0, so the last is 2/3"),
        ("0/0", "is not a shard"),
        ("1", "is not a shard"),
        ("-1/3", "is not a shard"),
    ],
)
def test_what_is_no_shard_is_refused(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        parse_shard(text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [("7-1", "write the smaller id first"), ("1-1000001", "is not a range"), (" , ", "names no case")],
)
def test_what_names_no_case_is_refused(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        parse_case_ids(text)


def test_a_selection_is_told_by_its_flags() -> None:
    words = "to 2 ids (--case-ids), to 1 case (--limit), to shard 1/3 (--shard)"
    assert Selection(("7", "8"), 1, Shard(1, 3)).words == words
    assert Selection().words == ""


def test_a_file_has_an_id_a_line_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    path.write_text("1-3\n\n a b,c \n1-3\n")
    assert parse_case_ids(f"@{path}") == ("1-3", "a b,c")
    assert parse_case_ids("1-3, 7") == ("1", "2", "3", "7")


@pytest.mark.parametrize("content", [b"\n", b"\xff\n"])
def test_a_file_without_ids_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ids.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"ids\.txt"):
        parse_case_ids(f"@{path}")
