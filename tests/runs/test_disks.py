"""Runs on disks of other machines, and on disks that cannot be written."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from ranking.errors import RankerError
from ranking.training.job import WORKPLACE, alone
from retrieval.building import building
from retrieval.corpus.manifest import Manifest
from runs.record.folder import CALLS, RunFolder, RunWriter
from runs.record.manifest import RunError
from runs.review.reviews import Reviews, make_review
from serving.journal.files import flush_log, take_back
from serving.journal.journal import Journal, JournalError
from serving.protocol.messages import Answer, Message
from serving.protocol.request import AnyRequest
from storage import disks
from storage.errors import InputError
from storage.locks import FileLock
from tests.evigraph import evigraph, write_cases, write_recipe
from tests.serving.asks import as_sent


def question(number: int) -> AnyRequest:
    return as_sent(messages=(Message("user", f"A question {number}"),))


def answer(number: int) -> Answer:
    return Answer(f"Reply {number}", "stop", 10, 20, 0, 0.1, 0, "s", ())


def fill(journal: Journal, count: int) -> None:
    for number in range(count):
        journal.store(question(number), {0: answer(number)})


@pytest.fixture
def nfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"40 22 0:44 / {tmp_path} rw - nfs4 filer:/home rw,vers=4.2\n")
    monkeypatch.setattr(disks, "_MOUNTS", mounts)
    return mounts


def mode(path: Path) -> str:
    with closing(sqlite3.connect(path)) as database:
        return str(database.execute("PRAGMA journal_mode").fetchone()[0])


def test_a_journal_on_a_disk_of_another_machine_has_no_log(tmp_path: Path, nfs: Path) -> None:
    path = tmp_path / CALLS
    with closing(Journal(path)) as journal:
        fill(journal, 3)
        with closing(Journal(path, read_only=True)) as reader:
            found = reader.find(question(2).key(0))
            assert found is not None and found.text == "Reply 2"
        assert not path.with_name(f"{CALLS}-wal").exists() and not path.with_name(f"{CALLS}-shm").exists()
    assert mode(path) == "delete"


def test_a_journal_that_moved_there_goes_on_without_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / CALLS
    with closing(Journal(path)) as journal:
        fill(journal, 3)
        shutil.copytree(tmp_path, tmp_path / "moved")
    assert (tmp_path / "moved" / f"{CALLS}-wal").stat().st_size
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"40 22 0:44 / {tmp_path} rw - lustre 10.0.0.2@tcp:/scratch rw\n")
    monkeypatch.setattr(disks, "_MOUNTS", mounts)
    with closing(Journal(tmp_path / "moved" / CALLS)) as journal:
        fill(journal, 5)
        assert journal.count() == 5
        assert not (tmp_path / "moved" / f"{CALLS}-wal").exists()


_KILLED = """
import os, signal, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA journal_mode=TRUNCATE")
database.execute("PRAGMA cache_size=1")
database.execute("BEGIN IMMEDIATE")
database.execute("UPDATE texts SET body = 'x' || body")
for number in range(3000):
    database.execute("INSERT INTO texts (body) VALUES (?)", ("y" * 500,))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_commit_that_a_kill_broke_off_there_is_taken_back(tmp_path: Path, nfs: Path) -> None:
    path = tmp_path / CALLS
    with closing(Journal(path)) as journal:
        fill(journal, 3)
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    with pytest.raises(JournalError, match="a write was broken off; resume the run"):
        Journal(path, read_only=True)
    take_back(path)
    with closing(Journal(path, read_only=True)) as journal:
        assert journal.find(question(1).key(0)) == answer(1)


def test_the_log_is_flushed_while_replies_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[Path] = []

    def flush(path: Path) -> None:
        flushed.append(path)
        flush_log(path)

    monkeypatch.setattr("serving.journal.journal.flush_log", flush)
    now = iter(range(100))
    monkeypatch.setattr("serving.journal.journal.time.monotonic", lambda: 0.4 * next(now))
    with closing(Journal(tmp_path / CALLS)) as journal:
        fill(journal, 6)
    assert flushed == [tmp_path / CALLS] * 2


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two cases with a log that is not folded in, as a kill leaves it, and one without."""
    folder = tmp_path_factory.mktemp("made")
    cases, recipe = write_cases(folder / "cases.jsonl", 2), write_recipe(folder)
    command = ("run", "tamu", cases, "--recipe", recipe, "--model", "scripted:auto", "--out", "whole")
    assert evigraph(*command, folder=folder).code == 0
    with closing(Journal(folder / "whole" / CALLS)) as journal:
        fill(journal, 1)
        shutil.copytree(folder / "whole", folder / "log")
    assert (folder / "log" / f"{CALLS}-wal").stat().st_size
    return folder


def test_two_writers_where_flock_does_nothing(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(made / "whole", tmp_path / "run"))
    monkeypatch.setattr("fcntl.flock", lambda *_: None)
    with RunWriter(run):
        with pytest.raises(RunError, match=f"run: process {os.getpid()} on .* is writing since"):
            RunWriter(run)
        # `run.json` is not even read.
        (run / "run.json").write_bytes(b"[")
        with pytest.raises(RunError, match="is writing since"):
            RunWriter(run)


def test_builds_and_reviews_where_flock_does_nothing(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(made / "whole", tmp_path / "run"))
    monkeypatch.setattr("fcntl.flock", lambda *_: None)
    with (
        building(tmp_path / "corpus", Manifest),
        pytest.raises(InputError, match=r"is being built: process \d+ on .* is writing since"),
        building(tmp_path / "corpus", Manifest),
    ):
        pass
    # What the lock left is nothing foreign.
    with building(tmp_path / "corpus", Manifest):
        pass
    (tmp_path / "ranker" / WORKPLACE).mkdir(parents=True)
    with (
        alone(tmp_path / "ranker"),
        pytest.raises(RankerError, match="is writing since"),
        alone(tmp_path / "ranker"),
    ):
        pass
    reviews = Reviews(run)
    review = make_review(next(iter(RunFolder(run).cases())), reviewer="Ann", comment="Fine.")
    monkeypatch.setattr("runs.record.added_lines._WAIT_S", 0.05)
    with FileLock(run / ".reviews.jsonl.lock"), pytest.raises(RunError, match="is writing since"):
        reviews.add(review)
    reviews.add(review)
    assert sum(map(len, Reviews(run).histories().values())) == 1


def test_a_review_waits_for_another(made: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(made / "whole", tmp_path / "run"))
    reviews = Reviews(run)
    review = make_review(next(iter(RunFolder(run).cases())), reviewer="Ann", comment="Fine.")
    lock = FileLock(run / ".reviews.jsonl.lock")
    threading.Timer(0.2, lock.close).start()
    reviews.add(review)
    assert sum(map(len, Reviews(run).histories().values())) == 1


def read_only(folder: Path, *commands: list[str]) -> list[tuple[int, str, str]]:
    """What commands come to where a folder is mounted read-only."""
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$2" -c "$3"'
    python = (
        "import json\n"
        "from pathlib import Path\n"
        "from tests.evigraph import evigraph\n"
        f"for command in {commands!r}:\n"
        "    print(json.dumps(evigraph(*command, folder=Path.cwd())))\n"
    )
    ended = subprocess.run(
        [
            shutil.which("unshare") or "unshare",
            "-m",
            "sh",
            "-c",
            script,
            "sh",
            str(folder),
            sys.executable,
            python,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        pytest.skip(f"needs the right to mount: {ended.stderr.strip()}")
    return [tuple(json.loads(line)) for line in ended.stdout.splitlines()]


def test_a_run_on_a_disk_that_cannot_be_written(made: Path, tmp_path: Path) -> None:
    whole, log, out = str(made / "whole"), str(made / "log"), tmp_path / "bundle"
    shown, shown_log, bundled, rerun, resumed = read_only(
        made,
        ["show", whole, "k1", "--calls"],
        ["show", log, "k1", "--calls"],
        ["view", log, "--bundle", str(out)],
        ["rerun", whole, "k1", "--from", "generate_answer"],
        ["resume", whole],
    )
    assert (shown[0], shown_log[0]) == (0, 0), (shown, shown_log)
    assert shown[1].count("Sentence 3 of note 1") >= 4 and shown_log[1].count("Sentence 3 of note 1") >= 4
    assert bundled[0] == 0, bundled
    pages = [path.read_text() for path in (out / "log" / "calls").iterdir()]
    assert len(pages) > 10 and not any("cannot be read" in page for page in pages)
    assert (
        rerun[0] == 2 and rerun[2].count("\n") == 1 and "a fork is written into its folder forks" in rerun[2]
    )
    assert resumed[0] == 2 and resumed[2].count("\n") == 1 and "Read-only file system; copy it" in resumed[2]


def test_no_bundle_of_calls_without_a_journal(made: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(made / "whole", tmp_path / "run"))
    (run / CALLS).write_bytes(b"nonsense" * 1000)
    refused = evigraph("view", run, "--bundle", "bundle", folder=tmp_path)
    assert refused.code == 2 and "calls.sqlite: file is not a database" in refused.line
    assert not (tmp_path / "bundle").exists()
    assert evigraph("view", run, "--bundle", "bundle", "--no-calls", folder=tmp_path).code == 0


@pytest.mark.parametrize(
    ("words", "size", "name"),
    [
        (("purge", "run", "--yes"), 100, "purged.json"),
        (("purge", "run", "--yes"), 20_000, "trace.jsonl.gz"),
        (("runs", "push", "run", "file:///{}/bucket"), 10, "push-id"),
        (("runs", "push", "run", "file:///{}/bucket"), 100, "audit.jsonl"),
    ],
)
def test_a_full_disk_is_reported_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], size: int, name: str
) -> None:
    cases, recipe = write_cases(tmp_path / "cases.jsonl", 12), write_recipe(tmp_path)
    command = ("run", "tamu", cases, "--recipe", recipe, "--model", "scripted:auto", "--out", "run")
    assert evigraph(*command, folder=tmp_path).code == 0
    # SQLite names its file in any case.
    (tmp_path / "run" / CALLS).unlink()
    monkeypatch.chdir(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        ended = CliRunner().invoke(app, [word.format(tmp_path) for word in words])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(ended.exception, OSError) and str(ended.exception).endswith(f"run/{name}'")
