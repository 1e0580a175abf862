from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import runs
from runs.record.folder import CASES, RunFolder, RunWriter
from runs.record.index import INDEX, RunIndex
from runs.record.manifest import RunError
from tests.evigraph import evigraph, write_cases, write_recipe


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    write_cases(folder / "cases.jsonl", 3)
    recipe = write_recipe(folder)
    arguments = ("run", "tamu", "cases.jsonl", "--model", "scripted:auto", "--out", "run")
    assert evigraph(*arguments, "--recipe", str(recipe), folder=folder).code == 0
    return folder


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    """A copy of the run without its index."""
    shutil.copytree(made / "run", tmp_path / "run")
    (tmp_path / "run" / INDEX).unlink()
    return tmp_path / "run"


@pytest.fixture
def index(path: Path) -> Iterator[RunIndex]:
    opened = RunIndex(RunFolder(path))
    opened.refresh()
    yield opened
    opened.close()


def test_a_run_leaves_an_index_behind(made: Path) -> None:
    assert (made / "run" / INDEX).is_file()


def test_summaries_say_what_lines_and_trace_say(index: RunIndex) -> None:
    lines = {line["case_id"]: line for line in index.folder.cases()}
    for one in index.summaries():
        line = lines[one.case_id]
        votes = line["usable_votes"]
        assert one.divided == sum(0 < count < votes for count in line["vote_counts"].values())
        assert sum(one.votes_by_count) == one.sentences == len(line["labels"])
        trace = index.folder.trace(one.case_id)
        assert one.route == tuple(step["node"] for step in trace[:-1])
        assert one.seconds == trace[-1]["seconds"]
    assert [one.case_id for one in index.summaries()] == ["k0", "k1", "k2"]


def test_cases_know_those_before_and_after_them(index: RunIndex) -> None:
    found = [index.neighbours(case_id) for case_id in ("k0", "k1", "k2", "k9")]
    assert found == [(None, "k1"), ("k0", "k2"), ("k1", None), (None, None)]


def test_a_case_is_read_by_its_place(index: RunIndex) -> None:
    assert index.line("k1") == index.folder.case("k1")
    assert index.trace("k1") == index.folder.trace("k1")
    case = index.case("k1")
    assert case is not None
    assert case.id == "k1"
    assert case.sentences
    with pytest.raises(RunError, match="no case 'nobody' has ended"):
        index.line("nobody")


def test_a_refresh_reads_what_is_new(index: RunIndex) -> None:
    assert not index.refresh()
    line, trace = index.folder.case("k0"), index.folder.trace("k0")
    assert line is not None
    with RunWriter(index.folder.path) as writer:
        writer.append({**line, "case_id": "new"}, [{**step, "case_id": "new"} for step in trace])
        assert index.refresh()
        writer.append({**line, "status": "failed", "error": {"class": "timeout", "message": ""}}, trace[-1:])
        assert index.refresh()
    found = {one.case_id: one for one in index.summaries()}
    assert found["new"].route == found["k1"].route
    assert (found["k0"].status, found["k0"].error, found["k0"].route) == ("failed", "timeout", ())


def test_a_reader_asks_for_what_came_after_a_revision(index: RunIndex) -> None:
    known = index.revision
    assert [one.case_id for one in index.summaries(known)] == []
    line = index.folder.case("k1")
    assert line is not None
    with RunWriter(index.folder.path) as writer:
        writer.append({**line, "status": "failed", "error": {"class": "timeout", "message": ""}}, [])
    assert index.refresh()
    assert [one.case_id for one in index.summaries(known)] == ["k1"]
    assert index.totals().statuses == {"done": 2, "failed": 1}


def test_lines_in_a_new_order_are_found(index: RunIndex) -> None:
    with RunWriter(index.folder.path) as writer:
        writer.compact({"k2": 0, "k1": 1, "k0": 2})
    # Before a refresh the places are those of the old file.
    assert index.line("k0")["case_id"] == "k0"
    assert index.refresh()
    assert index.line("k2")["case_id"] == "k2"


def test_a_file_of_cases_that_was_edited_is_read_anew(index: RunIndex) -> None:
    path = index.folder.path / CASES
    edited = re.sub(
        r', "crc32": "\w+"', "", path.read_text().replace('"status": "done"', '"status": "failed"')
    )
    path.write_text(edited)
    # As earlier versions wrote lines: without checksums.
    index.folder.manifest.sealed = False
    assert index.refresh()
    assert {one.status for one in index.summaries()} == {"failed"}


def test_a_damaged_line_is_named(index: RunIndex) -> None:
    path = index.folder.path / CASES
    path.write_text("nonsense\n" + path.read_text())
    with pytest.raises(RunError, match=r"cases\.jsonl: line 1: "):
        index.refresh()


def test_case_files_that_changed_are_not_shown(path: Path) -> None:
    run = RunFolder(path)
    run.manifest.inputs.sha256 = "another"
    index = RunIndex(run)
    index.refresh()
    assert index.case("k0") is None
    assert index.texts_fault == "the case files have changed since the run"
    assert [one.wrong for one in index.summaries()] == [None, None, None]


def test_a_file_that_is_no_index_is_made_anew(path: Path) -> None:
    (path / INDEX).write_bytes(b"nonsense" * 200)
    index = RunIndex(RunFolder(path))
    index.refresh()
    assert len(list(index.summaries())) == 3


def test_progress_is_reported_and_nothing_is_lost_between_batches(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.record.index._BATCH", 2)
    told: list[str] = []
    index = RunIndex(RunFolder(path))
    index.refresh(told.append)
    assert [case.id for id_ in ("k0", "k1", "k2") if (case := index.case(id_))] == ["k0", "k1", "k2"]
    assert {"reading the texts of 3 cases: 2", "reading the trace: 2 cases"} <= {*told}


def test_a_run_without_results_has_no_cases(path: Path) -> None:
    (path / CASES).unlink()
    index = RunIndex(RunFolder(path))
    index.refresh()
    assert list(index.summaries()) == []


def test_labels_are_compared_with_a_key_of_people(tmp_path: Path) -> None:
    samples = Path("cases/samples/batch.xml").resolve()
    recipe = write_recipe(tmp_path)
    arguments = ("run", "tamu", str(samples), "--limit", "2", "--model", "scripted:auto", "--out", "run")
    assert evigraph(*arguments, "--recipe", str(recipe), folder=tmp_path).code == 0
    with runs.open(tmp_path / "run") as run:
        for one in run.summaries():
            case = run.case(one.case_id)
            assert case is not None
            labels = run.line(one.case_id)["labels"]
            key = case.gold.labels or {}
            assert one.wrong == sum((labels[id_] == "essential") != (key[id_] == "essential") for id_ in key)
        totals, rows = run.totals(), list(run.summaries())
        assert totals.scored == len(rows) == 2
        assert totals.predicted == sum(one.essential for one in rows)
        assert totals.predicted + totals.gold - 2 * totals.correct == sum(one.wrong or 0 for one in rows)


def test_a_run_opened_for_reading_shows_calls_and_names_unknown_cases(made: Path) -> None:
    with runs.open(made / "run") as run:
        key = next(call["key"] for step in run.trace("k0") for call in step.get("calls", []))
        assert run.conversation(key)[-1].role == "assistant"
        with pytest.raises(RunError, match="did you mean"):
            run.line("k00")
        assert not run.refresh()
        assert (run.path / CASES).is_file()
