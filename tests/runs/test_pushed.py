"""Runs in object storage, which here is a folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from runs.move.pushed import LIST, PLAN
from runs.record.audit import read_audit
from runs.record.folder import CALLS, COPY, locked
from runs.record.sealed import open_document, seal_document
from serving.policy.object_store import ObjectStore
from tests.evigraph import ROOT, said, write_cases, write_recipe

pytest.importorskip("fsspec", reason="needs the extra storage")

KILLED = """\
import os, signal, sys
from serving.policy.object_store import ObjectStore
put, left = ObjectStore.put, [3]

def put_or_die(self, source, name):
    left[0] -= 1
    if left[0]:
        return put(self, source, name)
    with open(self._path(name), "wb") as file:
        file.write(source.read_bytes()[:-1])
    os.kill(os.getpid(), signal.SIGKILL)

ObjectStore.put = put_or_die
from cli.main import main
main()
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    write_recipe(folder)
    given = ("--model", "scripted:auto", "--recipe", folder / "lexical.yaml")
    for name, count in (("run", 2), ("other", 1)):
        write_cases(folder / f"{name}.jsonl", count)
        said("run", "tamu", folder / f"{name}.jsonl", *given, "--out", folder / name)
    said("rerun", folder / "run", "k0", "--from", "generate_answer")
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made / "run", tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    return tmp_path / "bucket"


def url(bucket: Path) -> str:
    return f"file://{bucket}"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def files(run: Path) -> dict[str, bytes]:
    """Without what a folder has for itself."""
    own = ("index.sqlite", ".lock", "calls.sqlite-wal", "calls.sqlite-shm")
    return {name: found for name, found in contents(run).items() if Path(name).name not in own}


def objects(bucket: Path, name: str) -> list[Path]:
    return sorted(bucket.glob(f"{name}.????????????????*"))


def demand_nothing_at(out: Path) -> None:
    assert not [path for path in out.parent.iterdir() if out.name in path.name]


def test_a_run_that_was_pushed_is_pulled_byte_for_byte(run: Path, bucket: Path, tmp_path: Path) -> None:
    assert f"is now at {url(bucket)}: 15 files" in said("runs", "push", run, url(bucket))
    there = contents(bucket)
    assert f"is at {url(bucket)} already: 15 files" in said("runs", "push", run, url(bucket))
    assert contents(bucket) == there and PLAN not in there
    out = tmp_path / "pulled"
    assert f"is now in {out}: 15 files" in said("runs", "pull", url(bucket), "--out", out)
    assert files(out) == files(run) and "forks/1/cases.jsonl" in files(out)
    assert {path.stat().st_mode & 0o077 for path in out.rglob("*")} == {0}
    assert said("check", out).startswith("whole: 2 ended cases, 16 stored calls")
    assert "holds" not in said("runs", "push", out, url(bucket))
    last = [line.fields for line in read_audit(run)][-1]
    assert last is not None and (last["event"], last["to"], last["texts"]) == ("pushed", url(bucket), True)
    assert said("runs", "pull", url(bucket), "--out", out).endswith("choose another --out")


def test_a_push_that_was_killed_is_no_run_and_is_gone_on_with(
    run: Path, bucket: Path, tmp_path: Path
) -> None:
    words = [sys.executable, "-c", KILLED, "runs", "push", str(run), url(bucket)]
    killed = subprocess.run(words, cwd=ROOT, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    sent = {name: path for name in contents(bucket) for path in [bucket / name] if name != PLAN}
    assert len(sent) == 3
    refused = said("runs", "pull", url(bucket), "--out", tmp_path / "pulled")
    assert "no pushed run here (pushed.json is missing); a push has begun and not ended" in refused
    demand_nothing_at(tmp_path / "pulled")
    # Two were whole, of which one is the log, which has a line more now.
    assert "15 files" in (again := said("runs", "push", run, url(bucket))) and "(sent now: 14," in again
    assert len(objects(bucket, "audit.jsonl")) == 1 and not (bucket / PLAN).exists()
    said("runs", "pull", url(bucket), "--out", tmp_path / "pulled")
    assert files(tmp_path / "pulled") == files(run)


@pytest.mark.parametrize("content", [b"", b'{"version": 1'])
def test_a_plan_that_a_full_disk_has_cut_does_not_block_the_next_push(
    content: bytes, run: Path, bucket: Path
) -> None:
    bucket.mkdir()
    (bucket / PLAN).write_bytes(content)
    assert "is now at" in said("runs", "push", run, url(bucket))
    assert not (bucket / PLAN).exists()


def test_an_object_that_is_damaged_or_missing_is_named_and_nothing_is_left(
    run: Path, bucket: Path, tmp_path: Path
) -> None:
    said("runs", "push", run, url(bucket))
    (cases,) = objects(bucket, "cases.jsonl")
    whole = cases.read_bytes()
    cases.write_bytes(whole[:100] + b"x" + whole[101:])
    pull = ("runs", "pull", url(bucket), "--out", tmp_path / "pulled")
    assert said(*pull).startswith(f"{url(bucket)}/{cases.name}: is damaged: its SHA-256 differs from")
    demand_nothing_at(tmp_path / "pulled")
    cases.unlink()
    assert said(*pull) == f"{url(bucket)}/{cases.name}: is missing; push the run again"
    demand_nothing_at(tmp_path / "pulled")
    assert "(sent now: 2," in said("runs", "push", run, url(bucket))
    assert "is now in" in said(*pull)
    (bucket / LIST).write_bytes((bucket / LIST).read_bytes().replace(b'"size": ', b'"size": 1', 1))
    refused = said("runs", "pull", url(bucket), "--out", tmp_path / "again")
    assert refused.startswith(f"{url(bucket)}/{LIST}: its checksum does not match")


@pytest.mark.parametrize(
    "name", ["../out.txt", "/etc/out.txt", "a/../../out.txt", ".lock", "forks/.x/a", "a//b"]
)
def test_a_list_that_leads_out_of_its_folder_is_refused(
    name: str, run: Path, bucket: Path, tmp_path: Path
) -> None:
    said("runs", "push", run, url(bucket))
    written = open_document((bucket / LIST).read_bytes())
    for field, value in (
        ("files", {name: {"size": 0, "sha256": "0" * 64}}),
        ("left", [f"{name}.{'0' * 64}"]),
    ):
        forged = json.dumps({**written, field: value}, indent=2).encode() + b"\n"
        (bucket / LIST).write_bytes(seal_document(forged))
        for words in (("pull", url(bucket), "--out", tmp_path / "pulled"), ("push", run, url(bucket))):
            assert f"names a file {name!r}, which no run has" in said("runs", *words)


def test_a_run_that_is_written_or_another_one_is_refused(
    made: Path, run: Path, bucket: Path, tmp_path: Path
) -> None:
    with locked(run):
        assert said("runs", "push", run, url(bucket)) == f"{run}: another process is writing"
    with locked(run / "forks" / "1"):
        assert said("runs", "push", run, url(bucket)) == f"{run / 'forks' / '1'}: another process is writing"
    assert not bucket.exists()
    said("runs", "push", run, url(bucket))
    there = contents(bucket)
    refused = said("runs", "push", made / "other", url(bucket))
    assert refused.startswith(f"{url(bucket)}: another run is there, pushed from a folder 'run' at ")
    (bucket / LIST).rename(bucket / PLAN)
    assert "another run is there" in said("runs", "push", made / "other", url(bucket))
    (bucket / PLAN).rename(bucket / LIST)
    assert contents(bucket) == there


def test_a_run_that_has_gone_on_takes_the_place_of_what_was_pushed(
    run: Path, bucket: Path, tmp_path: Path
) -> None:
    said("runs", "push", run, url(bucket))
    said("runs", "note", run, "a note")
    (run / COPY).write_bytes(b"{}")
    # The note, the copy, the log.
    assert "16 files" in (again := said("runs", "push", run, url(bucket))) and "(sent now: 3," in again
    assert len([path for path in bucket.rglob("*") if path.is_file()]) == 17
    said("runs", "pull", url(bucket), "--out", tmp_path / "pulled")
    assert files(tmp_path / "pulled") == files(run)


@pytest.mark.parametrize("linked", [False, True])
def test_a_journal_that_others_have_open_is_copied_whole(
    linked: bool, run: Path, bucket: Path, tmp_path: Path
) -> None:
    journal = run / CALLS
    if linked:
        journal.rename(tmp_path / CALLS)
        journal.symlink_to(tmp_path / CALLS)
    with closing(sqlite3.connect(journal)) as writer, closing(sqlite3.connect(journal)) as reader:
        reader.execute("PRAGMA busy_timeout=0")
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()
        # It is only in the log while the reader is there.
        writer.execute("CREATE TABLE late (a)")
        writer.execute("INSERT INTO late VALUES (7)")
        writer.commit()
        assert "is now at" in said("runs", "push", run, url(bucket))
    said("runs", "pull", url(bucket), "--out", tmp_path / "pulled")
    assert not (run / ".pushing").exists() and not (tmp_path / "pulled" / CALLS).is_symlink()
    with closing(sqlite3.connect(tmp_path / "pulled" / CALLS)) as pulled:
        assert pulled.execute("SELECT a FROM late").fetchall() == [(7,)]
        assert pulled.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_journal_that_a_link_leads_to_may_be_written_meanwhile(
    run: Path, bucket: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / CALLS
    (run / CALLS).rename(shared)
    (run / CALLS).symlink_to(shared)
    put = ObjectStore.put

    def put_late(self: ObjectStore, source: Path, name: str) -> None:
        with closing(sqlite3.connect(shared)) as other:
            other.execute("CREATE TABLE IF NOT EXISTS late (a)")
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        put(self, source, name)

    monkeypatch.setattr(ObjectStore, "put", put_late)
    assert "is now at" in said("runs", "push", run, url(bucket))
    assert "is now in" in said("runs", "pull", url(bucket), "--out", tmp_path / "pulled")


def test_what_is_no_file_of_a_run_is_refused(run: Path, bucket: Path, tmp_path: Path) -> None:
    (run / "notes").symlink_to(tmp_path)
    assert "is a link or no file" in said("runs", "push", run, url(bucket))
    (run / "notes").unlink()
    os.mkfifo(run / "pipe")
    assert "is a link or no file" in said("runs", "push", run, url(bucket))


def test_a_policy_beside_the_case_files_binds_a_push(made: Path, run: Path) -> None:
    policy = made / "policy.yaml"
    policy.write_text("name: ours\nhosts: [loopback]\n")
    try:
        assert "policy 'ours'" in (refused := said("runs", "push", run, "gs://bucket/run"))
        assert "rule hosts: storage.googleapis.com may see no text" in refused
    finally:
        policy.unlink()


def test_of_a_purged_run_no_text_is_sent(run: Path, bucket: Path) -> None:
    said("purge", run, "--yes")
    said("runs", "push", run, url(bucket))
    last = [line.fields for line in read_audit(run)][-1]
    assert last is not None and (last["event"], last["texts"]) == ("pushed", False)
