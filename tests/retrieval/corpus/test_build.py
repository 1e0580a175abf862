"""How corpora come to be: in parts, after a kill, again, and from bad input."""

from __future__ import annotations

import errno
import fcntl
import gzip
import json
import multiprocessing
import os
import resource
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from retrieval.building import Progress, building
from retrieval.corpus.build import BuildOptions, build
from retrieval.corpus.corpus import Corpus
from retrieval.corpus.manifest import Manifest
from storage.errors import InputError
from tests.retrieval.corpus.conftest import SAMPLE, Build, write_documents

QUERY = "Does marrowroot tea shorten the common cold?"


def in_child(target: Callable[..., object], *arguments: object) -> int:
    """Run in a separate process, which may be killed; returns its exit code."""
    with warnings.catch_warnings():
        # This process may have threads; none of them builds anything.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = multiprocessing.get_context("fork").Process(target=target, args=arguments)
        process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def killed_build(source: Path, folder: Path, stage: str, done: int) -> None:
    """Of parts of 5; killed while it reads with so many parts finished, or scores as many."""

    def report(step: Progress) -> None:
        parts = len(list((folder / "parts").glob("0*"))) if stage == "reading" else step.done
        if step.stage == stage and parts >= done:
            os.kill(os.getpid(), signal.SIGKILL)

    build([source], folder, BuildOptions(part_size=5), report=report)


def cramped_build(source: Path, folder: Path, limit: int, told: Path) -> None:
    """No file may have more bytes than the limit."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        build([source], folder, BuildOptions(part_size=5))
    except InputError as error:
        told.write_text(str(error)[:limit])


def changed(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*.npy")}


@pytest.mark.parametrize(("stage", "done", "parts"), [("reading", 3, 3), ("scoring", 2, 5)])
def test_a_killed_build_goes_on(tmp_path: Path, built: Build, stage: str, done: int, parts: int) -> None:
    folder = tmp_path / "killed"
    assert in_child(killed_build, SAMPLE, folder, stage, done) == -signal.SIGKILL
    assert len(list((folder / "parts").glob("0*"))) == parts
    assert len(list((folder / "parts").glob(".*.tmp"))) == (stage == "reading"), "a part was in hand"
    with pytest.raises(InputError, match="not finished"):
        Corpus.open(folder)
    left = changed(folder)
    again = build([SAMPLE], folder, BuildOptions(part_size=5))
    assert (again.found, again.unchanged) == (min(5 * parts, 24), False)
    whole = built(name="whole")
    assert Corpus.open(folder).search(QUERY, 24) == whole.search(QUERY, 24)
    assert list(Corpus.open(folder)) == list(whole)
    finished = {path: at for path, at in left.items() if ".tmp" not in path}
    assert finished.items() <= changed(folder).items()


def test_a_finished_corpus_is_left_as_it_is(built: Build) -> None:
    folder = built(part_size=10).folder
    left = changed(folder)
    again = build([SAMPLE], folder)
    assert again.unchanged
    assert again.manifest == Manifest.read(folder)
    assert changed(folder) == left


def test_a_copied_source_is_the_same_source(tmp_path: Path, built: Build) -> None:
    folder = built().folder
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(SAMPLE.read_bytes())
    assert build([copy], folder).unchanged


def test_new_files_at_the_end_are_added(tmp_path: Path, built: Build) -> None:
    more = write_documents(tmp_path / "more.jsonl", [{"id": "new", "text": "marrowroot tea and cough"}])
    folder = built(part_size=10).folder
    added = build([SAMPLE, more], folder, BuildOptions(part_size=10))
    assert (added.found, added.manifest.tally.documents) == (24, 25)
    whole = built(SAMPLE, more, name="whole")
    assert Corpus.open(folder).search(QUERY, 25) == whole.search(QUERY, 25)
    assert Corpus.open(folder).identity == whole.identity


def test_another_min_df_scores_again_and_reads_nothing(built: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = built(part_size=10).folder
    read: list[int] = []
    build([SAMPLE], folder, BuildOptions(min_df=5), report=lambda step: read.append(step.stage == "reading"))
    assert not any(read)
    assert Corpus.open(folder).search("tea trial", 9) == built(name="fresh", min_df=5).search("tea trial", 9)
    assert len(list(folder.rglob("scores-*.npy"))) == 3


@pytest.mark.parametrize(
    ("files", "options", "fault"),
    [
        (["d.jsonl", "other.jsonl"], {}, "has other content"),
        ([], {}, "was built from 2 files, and 1 are given"),
        (["d.jsonl", "more.jsonl"], {"citations": Path("c.csv")}, "another value of citations"),
    ],
)
def test_what_would_make_another_corpus_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], options: Any, fault: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("d", "more", "other"):
        write_documents(Path(f"{name}.jsonl"), [{"id": name, "text": name}])
    Path("c.csv").write_text("d,1\n")
    build([Path("d.jsonl"), Path("more.jsonl")], Path("corpus"))
    given = [Path(name) for name in files or ["d.jsonl"]]
    with pytest.raises(InputError) as caught:
        build(given, Path("corpus"), BuildOptions(**options))
    assert fault in str(caught.value)
    assert len(Corpus.open(Path("corpus"))) == 2


def test_the_first_document_of_an_id_is_kept(tmp_path: Path, built: Build) -> None:
    documents = [{"id": "a", "text": f"fever {number}"} for number in range(3)]
    documents[1:1] = [{"id": str(number), "text": "cough"} for number in range(4)]
    corpus = built(write_documents(tmp_path / "d.jsonl", documents), part_size=2)
    assert [document.id for document in corpus] == ["a", "0", "1", "2", "3"]
    found = corpus.document("a")
    assert found is not None
    assert found.text == "fever 0"
    assert corpus.manifest.tally.skipped == {"duplicate id": 2}


def test_skipped_records_are_counted_with_their_places(tmp_path: Path, built: Build) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(
        '{"id": "a", "text": "fever"}\n{\n{"id": "b"}\n{"id": "c", "text": "cough", "year": 1999}\n{\n'
    )
    tally = built(path, part_size=1).manifest.tally
    assert tally.skipped == {"unreadable": 2, "empty": 1}
    assert [fault.split(": ")[1] for fault in tally.faults] == ["line 2", "line 3", "line 5"]
    assert (tally.documents, tally.without_year, tally.years) == (2, 1, {1999: 1})


def test_a_damaged_file_does_not_end_the_others(tmp_path: Path, built: Build) -> None:
    cut = tmp_path / "a.jsonl.gz"
    lines = "".join(
        json.dumps({"id": str(number), "text": f"{number} fever"}) + "\n" for number in range(500)
    )
    cut.write_bytes(gzip.compress(lines.encode())[:-40])
    corpus = built(cut, SAMPLE)
    assert corpus.manifest.tally.skipped == {"damaged file": 1}
    assert corpus.manifest.tally.damaged[0].endswith(": the file is cut off")
    assert 24 < len(corpus) < 524


def test_citations_come_from_the_table(tmp_path: Path, built: Build) -> None:
    table = tmp_path / "c.csv"
    table.write_text("id,citations\nL01,1000\n")
    corpus = built(citations=table)
    found = [corpus.document(name) for name in ("L01", "L02")]
    assert [document.citations for document in found if document] == [1000, None]
    assert corpus.manifest.tally.with_citations == 1


@pytest.mark.parametrize("content", ["", "\n\n", '{"id": "a"}\n'])
def test_a_corpus_of_no_document_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match=r"d\.jsonl: no document in 1 file"):
        build([path], tmp_path / "corpus")
    path.write_text('{"id": "a", "text": "fever"}\n')
    assert build([path], tmp_path / "corpus").manifest.tally.documents == 1


def test_documents_without_a_single_word_make_a_corpus(tmp_path: Path, built: Build) -> None:
    corpus = built(write_documents(tmp_path / "d.jsonl", [{"id": "a", "text": "it is the"}]))
    assert corpus.search("fever", 3) == []


@pytest.mark.parametrize("limit", [300, 700])
def test_a_full_disk_is_one_line_and_harms_nothing(tmp_path: Path, built: Build, limit: int) -> None:
    folder, told = tmp_path / "cramped", tmp_path / "told"
    assert in_child(cramped_build, SAMPLE, folder, limit, told) == 0
    assert "cannot be written: File too large" in told.read_text()
    assert not list(folder.rglob("*.tmp"))
    build([SAMPLE], folder, BuildOptions(part_size=5))
    assert Corpus.open(folder).search(QUERY, 9) == built().search(QUERY, 9)


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSPC, "Free some space"), (errno.EDQUOT, "Free some space"), (errno.EIO, "Build again once")],
)
def test_what_helps_a_disk_that_takes_no_more_is_told(tmp_path: Path, number: int, remedy: str) -> None:
    with pytest.raises(InputError, match=rf"cannot be written: .*{remedy}"), building(tmp_path, Manifest):
        raise OSError(number, os.strerror(number))


def test_two_builds_of_one_corpus_do_not_meet(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    with (tmp_path / "corpus" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="is being built: another process is writing"):
            build([SAMPLE], tmp_path / "corpus")


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="is a folder of something else"):
        build([SAMPLE], tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_progress_counts_bytes_and_documents(tmp_path: Path) -> None:
    steps: list[Progress] = []
    build([SAMPLE], tmp_path / "corpus", BuildOptions(part_size=10), report=steps.append)
    read = [step for step in steps if step.stage == "reading"]
    assert [step.documents for step in read] == [10, 20, 24]
    assert read[-1].done == read[-1].total == SAMPLE.stat().st_size
