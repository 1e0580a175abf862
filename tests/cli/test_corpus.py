"""`evigraph corpus` as a user runs it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.evigraph import Ended, evigraph, said

SAMPLE = Path(__file__).parents[2] / "cases" / "samples" / "health" / "literature.jsonl"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpus")


@pytest.fixture(scope="module")
def built(place: Path) -> Ended:
    """The invented abstracts and a damaged file."""
    damaged = place / "damaged.jsonl.gz"
    damaged.write_bytes(gzip.compress(b'{"id": "a", "text": "fever"}\n{"id": "b"}\n' * 9)[:-9])
    return evigraph("corpus", "build", SAMPLE, damaged, "--out", "out/corpus", folder=place)


def test_a_build_tells_what_it_did_and_what_it_skipped(built: Ended) -> None:
    assert built.code == 0
    assert built.out.splitlines()[0] == "25 documents of 1995 to 2024 in out/corpus"
    assert "after line 18: the file is cut off" in built.err
    assert "18 records skipped: 1 damaged file, 8 duplicate id, 9 empty" in built.err


def test_the_next_command_is_one_for_a_folder_with_a_blank_in_its_name(tmp_path: Path) -> None:
    ended = evigraph("corpus", "build", SAMPLE, "--out", "my corpus", folder=tmp_path)
    assert ended.out.splitlines()[-1] == "next: evigraph corpus search 'my corpus' \"QUESTION\""


def test_a_second_build_has_nothing_to_do(built: Ended, place: Path) -> None:
    again = evigraph(
        "corpus", "build", SAMPLE, "damaged.jsonl.gz", "--out", "out/corpus", "--json", folder=place
    )
    assert again.summary["unchanged"] is True
    assert again.summary["tally"]["documents"] == 25


def test_a_query_that_finds_nothing_is_no_error(built: Ended, place: Path) -> None:
    ended = evigraph("corpus", "search", "out/corpus", "is it the", folder=place)
    assert (ended.code, ended.out.strip()) == (
        0,
        "no document shares a word with this text, stop words aside",
    )


def test_show(built: Ended, place: Path) -> None:
    ended = evigraph("corpus", "show", "out/corpus", folder=place)
    assert ended.code == 0
    assert "without year    1" in ended.out
    assert "2006-2007           1  ####" in ended.out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["search", "out/gone", "fever"], "out/gone: no such folder. Build one: evigraph corpus build"),
        (["show", "."], ".: contains no corpus. Build one: evigraph corpus build"),
        (["build", "gone.jsonl", "--out", "x"], "gone.jsonl: no such file or folder"),
        (["build", "notes.txt", "--out", "x"], "notes.txt: documents are read from .xml, .xml.gz, .jsonl, "),
        (["build", "empty.jsonl", "--out", "x"], "empty.jsonl: no document in 1 file"),
        (["build", str(SAMPLE), "--out", "notes.txt"], "notes.txt: is a file"),
    ],
)
def test_wrong_input_is_one_line(place: Path, arguments: list[str], line: str) -> None:
    (place / "notes.txt").write_text("fever\n")
    (place / "empty.jsonl").write_text("")
    ended = evigraph("corpus", *arguments, folder=place)
    assert ended.code == 2
    assert ended.line.startswith(line)


def test_a_search_prints_what_is_known_of_a_document(
    built: Ended, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "250")
    found = said("corpus", "search", "out/corpus", "fever", "-k", "1")
    assert found.startswith("rank score year cited id title kind of study source 1 ")
    assert found.endswith(" - - a fever")


def test_a_build_that_goes_on_and_one_with_nothing_to_do_say_so(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    said("corpus", "build", SAMPLE, "--out", "out/again")
    again = said("corpus", "build", SAMPLE, "--out", "out/again")
    assert again.startswith("unchanged: ") and "24 documents of 1995 to 2024 in out/again" in again
    (place / "one.jsonl").write_text('{"id": "new", "text": "fever"}\n')
    more = said("corpus", "build", SAMPLE, "one.jsonl", "--out", "out/again")
    assert more.startswith("continued after 24 documents 25 documents")
