"""Runs that are written on another disk: the run's folder is whole at any moment, and nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runs.move import scratch as scratch_module
from runs.move.scratch import Scratch, writing
from runs.record.elsewhere import MARKER, begin_elsewhere, elsewhere
from runs.record.folder import CALLS, CASES, MANIFEST, RunFolder, take_lock
from runs.record.manifest import RunError, RunStopped
from runs.record.publishing import built_beside, publish_files, settle
from runs.record.reading import Run
from runs.upkeep.check import check
from serving.journal.journal import Journal
from tests.broken_locks import NO_LOCK, broken_flock
from tests.evigraph import COMMAND, Ended, evigraph, write_cases, write_recipe

CASES_OF_A_RUN = 12
CALLS_OF_A_RUN = 8 * CASES_OF_A_RUN
AT_ONCE = 3
IN_FLIGHT = 4 * AT_ONCE
SCRIPT = """\
import asyncio, os, signal
from pathlib import Path
from serving.backends.scripted import made_up_reply
from serving.protocol.errors import CallError

HERE = Path(__file__).parent
made = 0

async def count(call):
    global made
    made += 1
    with open(HERE / "calls.txt", "a") as file:
        file.write(f"{call.role} {call.case_id} {call.sample}\\n")
    if made == int(os.environ.get("KILLED_AT", 0)):
        os.kill(os.getpid(), signal.SIGKILL)
    if made >= int(os.environ.get("WAITS_AT", 100_000)):
        (HERE / "waits").touch()
        await asyncio.sleep(600)
    await asyncio.sleep(0.01)
    if (HERE / "failing").exists() and call.case_id.endswith("3"):
        raise CallError("timeout", "late")
    return made_up_reply(call)
"""


class Place:
    """A folder with cases and a model that counts its calls, and a run written in its own folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_cases(folder / "cases.jsonl", CASES_OF_A_RUN)
        write_recipe(folder)
        (folder / "script.py").write_text(SCRIPT)

    def words(self, *more: str) -> list[str]:
        given = ["run", "tamu", "cases.jsonl", "--model", "scripted:script.py:count", "--recipe"]
        return [*given, "lexical.yaml", "--concurrency", str(AT_ONCE), *more]

    def run(self, *more: str, **environment: str) -> Ended:
        return self.give(*self.words("--out", "run", *more), **environment)

    def give(self, *words: str, **environment: str) -> Ended:
        return evigraph(*words, folder=self.folder, environment=environment)

    @property
    def path(self) -> Path:
        return self.folder / "run"

    @property
    def asked(self) -> int:
        made = (self.folder / "calls.txt").read_text().splitlines()
        return Counter(line for line in made if not line.startswith("probe")).total()

    @property
    def left(self) -> list[Path]:
        """What there is on the other disk."""
        return [*(self.folder / "disk").iterdir()]

    def demand_whole(self, alone: Place, *, twice: int = 0) -> None:
        assert (self.path / CASES).read_bytes() == (alone.path / CASES).read_bytes()
        assert check(RunFolder(self.path)).faults == []
        with contextlib.closing(Journal(self.path / CALLS, read_only=True)) as journal:
            assert journal.count() == CALLS_OF_A_RUN
        assert 0 <= self.asked - CALLS_OF_A_RUN <= twice
        assert elsewhere(self.path) is None and self.left == []


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("alone"))
    assert place.run().code == 0
    return place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


SCRATCH = ("--scratch", "disk")


def rows(run: Path) -> list[tuple[object, ...]]:
    """All calls, less the times."""
    with contextlib.closing(sqlite3.connect(run / CALLS)) as database:
        return sorted(database.execute("SELECT key, case_id, sample, input_tokens, output_tokens FROM calls"))


def test_a_run_on_another_disk_is_that_of_its_folder(place: Place, alone: Place) -> None:
    assert place.run(*SCRATCH).code == 0
    place.demand_whole(alone)
    assert rows(place.path) == rows(alone.path)
    assert not (place.path / f"{CALLS}-wal").exists()


@pytest.mark.parametrize("number", [1, 40, 90])
def test_a_killed_run_goes_on_from_the_other_disk(place: Place, alone: Place, number: int) -> None:
    killed = place.run(*SCRATCH, "--publish-every", "0.0005", KILLED_AT=str(number))
    assert killed.code == -signal.SIGKILL
    (left,) = place.left
    assert left.stat().st_mode & 0o777 == 0o700
    # Readers have what was published, and know where the rest is.
    shown = place.give("show", "run")
    assert shown.code == 0 and f"its session writes in {left} on " in shown.err
    assert f"next: evigraph resume run --scratch {left.parent}" in place.give("status", "run").out
    assert check(RunFolder(place.path)).faults == []
    for words in (("resume", "run"), ("retry", "run"), ("purge", "run", "--yes")):
        refused = place.give(*words)
        assert refused.code == 2
        assert "evigraph resume run --scratch " in refused.line and "--scratch-lost" in refused.line
    assert place.give("resume", "run", *SCRATCH).code == 0
    place.demand_whole(alone, twice=IN_FLIGHT)


def test_where_the_other_disk_is_lost_what_was_published_goes_on_when_asked_for(
    place: Place, alone: Place
) -> None:
    assert place.run(*SCRATCH, "--publish-every", "0.0005", KILLED_AT="60").code == -signal.SIGKILL
    published = len([*RunFolder(place.path).cases()])
    (left,) = place.left
    marker = json.loads((place.path / MARKER).read_text())
    (place.path / MARKER).write_text(json.dumps(marker | {"host": "node7"}))
    refused = place.give("resume", "run", *SCRATCH)
    assert refused.code == 2
    assert f"{left} on node7 since" in refused.line and "add --scratch-lost" in refused.line
    resumed = place.give("resume", "run", *SCRATCH, "--scratch-lost", "--json")
    assert resumed.code == 0 and "dropping the files" in resumed.err
    assert resumed.summary["cases_run"] == CASES_OF_A_RUN - published
    left.rename(place.folder / "elsewhere")
    place.demand_whole(alone, twice=60)


def test_what_was_lost_can_be_given_up_without_another_disk(place: Place, alone: Place) -> None:
    assert place.run(*SCRATCH, KILLED_AT="30").code == -signal.SIGKILL
    refused = place.give("resume", "run", "--scratch-lost")
    assert refused.code == 2 and "It is there" in refused.line
    (left,) = place.left
    left.rename(place.folder / "elsewhere")
    assert place.give("resume", "run", "--scratch-lost").code == 0
    place.demand_whole(alone, twice=30)


@contextlib.contextmanager
def waiting(place: Place, *more: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A run in the middle, whose model does not answer any more."""
    quiet = subprocess.DEVNULL
    command = [*COMMAND, *place.words("--out", "run", *SCRATCH, *more)]
    given = environment | {"WAITS_AT": "50"}
    with subprocess.Popen(command, cwd=place.folder, env=given, stdout=quiet, stderr=quiet) as process:
        try:
            while not (place.folder / "waits").exists():
                assert process.poll() is None
                time.sleep(0.02)
            yield process
        finally:
            process.kill()


def test_a_second_task_is_refused_and_a_stop_publishes(place: Place, alone: Place, tmp_path: Path) -> None:
    environment = broken_flock(tmp_path, NO_LOCK)
    with waiting(place, environment=environment) as process:
        preload = environment["LD_PRELOAD"]
        for words in (place.words("--out", "run", *SCRATCH), ["resume", "run", *SCRATCH, "--scratch-lost"]):
            refused = subprocess.run(
                [*COMMAND, *words], cwd=tmp_path, env=environment, capture_output=True, check=False
            )
            assert refused.returncode == 2, preload
            assert b"not empty" in refused.stderr or b"is writing since" in refused.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 130
    assert elsewhere(place.path) is None and place.left == []
    run = RunFolder(place.path)
    assert run.manifest.status == "interrupted" and check(run).faults == []
    assert 0 < len([*run.cases()]) < CASES_OF_A_RUN
    # The folder alone is enough, on whichever machine.
    assert place.give("resume", "run").code == 0
    place.demand_whole(alone, twice=IN_FLIGHT)


def test_a_run_that_began_in_its_folder_goes_on_elsewhere(place: Place, alone: Place) -> None:
    assert place.run(KILLED_AT="50").code == -signal.SIGKILL
    with contextlib.closing(sqlite3.connect(place.path / CALLS)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM calls").fetchone()
        refused = place.give("resume", "run", *SCRATCH)
        assert refused.code == 2 and "another process reads its journal" in refused.line
    assert not (place.folder / "disk").exists() or place.left == []
    assert place.give("resume", "run", *SCRATCH).code == 0
    place.demand_whole(alone, twice=IN_FLIGHT)


def test_a_session_that_is_refused_changes_nothing(place: Place) -> None:
    assert place.run(*SCRATCH).code == 0
    before = {path.name: path.read_bytes() for path in place.path.iterdir() if path.name != "audit.jsonl"}
    write_cases(place.folder / "cases.jsonl", CASES_OF_A_RUN + 1)
    refused = place.give("resume", "run", *SCRATCH)
    assert refused.code == 2 and "run: changed since this run began: case files" in refused.line
    after = {path.name: path.read_bytes() for path in place.path.iterdir() if path.name != "audit.jsonl"}
    assert after == before and place.left == []


def test_failed_cases_are_retried_elsewhere(place: Place, alone: Place) -> None:
    (place.folder / "failing").touch()
    assert place.run(*SCRATCH, "--max-retries", "0").code == 1
    (place.folder / "failing").unlink()
    assert place.left == []
    assert place.give("retry", "run", *SCRATCH).code == 0
    place.demand_whole(alone, twice=IN_FLIGHT)
    # The log is one, though the run was written in two folders.
    assert place.give("audit", "run").code == 0


async def test_a_full_disk_at_publication_keeps_what_was_done(
    place: Place, alone: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place.run(*SCRATCH, KILLED_AT="50").code == -signal.SIGKILL
    full = OSError(errno.ENOSPC, "No space left on device")

    def fail(*_: object) -> None:
        raise full

    disk = place.folder / "disk"
    with monkeypatch.context() as patch:
        patch.setattr(scratch_module, "publish_files", fail)
        with pytest.raises(RunStopped) as stopped:
            async with writing(place.path, Scratch(disk), lambda _: None) as run:
                run.save_manifest()
    (left,) = place.left
    assert str(stopped.value) == (
        f"{place.path}: cannot be published: No space left on device; all that was done is kept in {left};"
        f" make room or correct that, then: evigraph resume {place.path} --scratch {disk}"
    )
    assert place.give("resume", "run", *SCRATCH).code == 0
    place.demand_whole(alone, twice=IN_FLIGHT)


async def test_a_publication_that_fails_meanwhile_is_told_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place.run(*SCRATCH).code == 0
    said: list[str] = []
    failing = True

    def fail(*given: object) -> None:
        if failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        publish_files(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(scratch_module, "publish_files", fail)
    async with writing(place.path, Scratch(place.folder / "disk", 0.0001), said.append):
        await asyncio.sleep(0.3)
        failing = False
    assert len(said) == 1 and said[0].endswith("(the run continues)")


def test_an_open_reader_has_the_calls_of_a_later_publication(place: Place) -> None:
    (place.folder / "failing").touch()
    assert place.run(*SCRATCH, "--max-retries", "0").code == 1
    (place.folder / "failing").unlink()
    with Run(place.path) as reader:
        reader.demand_journal()
        assert place.give("retry", "run", *SCRATCH).code == 0
        reader.refresh()
        passes = [lines for _, lines in reader.folder.passes()][-1:]
        assert all(reader.conversation(key) for lines in passes for key in calls_of(lines))


def calls_of(lines: list[dict[str, Any]]) -> list[str]:
    return [call["key"] for line in lines for call in line.get("calls", ())]


NAMES = [CALLS, f"{CALLS}.count", CASES, MANIFEST]


def publish_state(run: Path, state: bytes) -> None:
    publish_files(run, [(name, io.BytesIO(state), len(state)) for name in NAMES])


def killed_at(run: Path, step: int, state: bytes) -> bool:
    """Publish in a process that is killed before its step of that number on the disk; whether it was."""
    child = os.fork()
    if child == 0:
        steps = 0

        def look(event: str, _: object) -> None:
            nonlocal steps
            if event in ("open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.scandir"):
                steps += 1
                if steps > step:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(look)
        try:
            publish_state(run, state)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_a_kill_at_any_step_of_a_publication_leaves_one_state(tmp_path: Path) -> None:
    publish_state(tmp_path, b"0")
    found, step = set(), 0
    while killed_at(tmp_path, step, b"%d" % (step + 1)):
        settle(tmp_path)
        (state,) = {(tmp_path / name).read_bytes() for name in NAMES}
        found.add(state == b"%d" % (step + 1))
        step += 1
    # Leftovers of kills do not hinder, and are removed.
    assert found == {False, True} and step > 3 * len(NAMES)
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b"%d" % (step + 1)}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(NAMES)


@pytest.mark.parametrize("seed", range(20))
def test_a_kill_while_others_read_leaves_one_state(tmp_path: Path, seed: int) -> None:
    child = os.fork()
    if child == 0:
        # Ends by the kill, or by an error, which leaves no process to kill.
        try:
            for number in range(1, 1_000_000):
                publish_state(tmp_path, b"%d" % number * 1000)
        finally:
            os._exit(1)
    end = time.monotonic() + random.Random(seed).uniform(0.002, 0.03)
    while time.monotonic() < end:
        settle(tmp_path)
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    settle(tmp_path)
    found = {(tmp_path / name).read_bytes() for name in NAMES if (tmp_path / name).exists()}
    assert len(found) <= 1
    publish_state(tmp_path, b"last")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(NAMES)
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b"last"}


def test_a_publication_that_cannot_be_read_changes_nothing_and_is_swept_away(tmp_path: Path) -> None:
    (tmp_path / CASES).write_text("before")
    (tmp_path / ".publishing-0.tmp").mkdir()
    with pytest.raises(ValueError, match="closed"):
        closed = io.BytesIO()
        closed.close()
        publish_files(tmp_path, [(CASES, io.BytesIO(b"after"), 5), (MANIFEST, closed, 1)])
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(CASES, "before")]
    publish_files(tmp_path, [(CASES, io.BytesIO(b"after"), 5)])
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(CASES, "after")]


def test_one_place_is_built_by_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        built_beside(tmp_path / "run", "merging"),
        pytest.raises(RunError, match=r"\.run\.merging: another process is writing"),
        built_beside(tmp_path / "run", "merging"),
    ):
        pass


def test_who_cannot_end_a_publication_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".published-0" / "0 run.json").mkdir(parents=True)
    (tmp_path / MANIFEST).mkdir()
    (tmp_path / MANIFEST / "in the way").touch()
    with pytest.raises(RunError, match="its last publication was broken off and cannot be ended here"):
        RunFolder(tmp_path)


def test_a_folder_that_others_may_enter_is_none_of_ours(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    folder.chmod(0o755)
    begin_elsewhere(tmp_path, folder)
    found = elsewhere(tmp_path)
    assert found is not None and not found.is_here
    folder.chmod(0o700)
    assert found.is_here
    link = tmp_path / "link"
    link.symlink_to(folder)
    begin_elsewhere(tmp_path, link)
    linked = elsewhere(tmp_path)
    assert linked is not None and not linked.is_here


def test_a_marker_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / MARKER).write_text("nonsense")
    (tmp_path / MANIFEST).write_text("{}")
    with pytest.raises(RunError, match=r"\.scratch\.json: cannot be read"):
        take_lock(tmp_path)
    with contextlib.closing(take_lock(tmp_path, from_elsewhere=True)):
        pass


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--scratch", "run/below"), "is inside the run's own folder"),
        (("--scratch", "cases.jsonl"), "cannot be written: "),
        (("--publish-every", "5"), "--publish-every needs --scratch DIR"),
    ],
)
def test_what_cannot_be_is_refused(place: Place, more: tuple[str, ...], said: str) -> None:
    refused = place.run(*more)
    assert refused.code == 2 and said in " ".join(refused.err.split())


async def test_a_run_that_is_not_there_or_shares_its_journal_is_not_written_elsewhere(place: Place) -> None:
    assert place.run("--limit", "1").code == 0
    (place.path / CALLS).rename(place.folder / "shared.sqlite")
    (place.path / CALLS).symlink_to(place.folder / "shared.sqlite")
    for path, said in (
        (place.path, "its journal is one that other runs use too"),
        (place.folder, "no run here"),
    ):
        with pytest.raises(RunError, match=said):
            async with writing(path, Scratch(place.folder / "disk"), lambda _: None):
                pass
    assert place.left == []
