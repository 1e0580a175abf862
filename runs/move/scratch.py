"""A session that writes its run on another disk, such as the local one of a node, and publishes it whole.

SQLite's log and locks want a disk of this machine. The run's own folder is written only when something is
published, by means that every file system has: new files, flushed, and a change of name.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cases.texts import quoted
from runs.record.elsewhere import begin_elsewhere, elsewhere, end_elsewhere
from runs.record.folder import CALLS, CASES, COPY, MANIFEST, RunWriter, demand_empty, take_lock
from runs.record.index import INDEX
from runs.record.manifest import Manifest, RunError, RunStopped
from runs.record.publishing import copy_journal, publish_files
from runs.record.trace_file import TRACE
from serving.journal.files import open_to_write
from serving.journal.journal import CallCount
from storage.locks import FileLock
from storage.private import private_folder

EVERY_MINUTES = 10.0

_COPY_OF_CALLS = ".{}.tmp"
_OTHERS_HAVE_IT_S = 5


@dataclass(frozen=True, slots=True)
class Scratch:
    """Working folder of a session.

    Attributes:
        folder: Of all that is written elsewhere; None for the run's own folder.
        every_minutes: Interval of publications while cases run; 0 publishes only at the end.
        lost: Continue from the published state if the rest cannot be found.
    """

    folder: Path | None
    every_minutes: float = EVERY_MINUTES
    lost: bool = False


@contextlib.asynccontextmanager
async def writing(
    out: Path, scratch: Scratch | None, report: Callable[[str], None], manifest: Manifest | None = None
) -> AsyncIterator[RunWriter]:
    """The one writer of a run for as long as a session lasts.

    `manifest` is for a new run; None for an existing one.

    Raises:
        RunError: Not a run, another process is writing it, or its last session left its work elsewhere.
        RunStopped: Finished work cannot be published; it is kept.
        OSError: A new folder cannot be written.
    """
    if scratch is not None and manifest is None and scratch.lost and scratch.folder is None:
        _give_up(out, report)
    if scratch is None or scratch.folder is None:
        with RunWriter(out) if manifest is None else RunWriter.create(out, manifest) as folder:
            yield folder
        return
    with _begun(out, scratch, scratch.folder, report, manifest) as (place, goes_on):
        before = _manifest_of(out)
        failure: Exception | None = None
        try:
            with RunWriter(place) if manifest is None else RunWriter.create(place, manifest) as folder:
                folder.home = out
                if manifest is not None:
                    await _publish(folder.path, out, scratch.folder)
                ended = asyncio.Event()
                publishing = asyncio.create_task(_now_and_then(folder, scratch, ended, report))
                try:
                    yield folder
                finally:
                    ended.set()
                    await publishing
        except Exception as error:
            failure = error
        if goes_on and failure is not None and not isinstance(failure, RunStopped):
            # Files left by a killed session may be damaged, so they are not moved.
            raise failure
        if goes_on or _manifest_of(place) != before:
            await _publish(place, out, scratch.folder)
        end_elsewhere(out)
        shutil.rmtree(place, ignore_errors=True)
        if failure is not None:
            raise failure


def _manifest_of(run: Path) -> bytes:
    try:
        return (run / MANIFEST).read_bytes()
    except FileNotFoundError:
        return b""


@contextlib.contextmanager
def _begun(
    out: Path, scratch: Scratch, folder: Path, report: Callable[[str], None], manifest: Manifest | None
) -> Iterator[tuple[Path, bool]]:
    """The run's folder elsewhere, that no other process writes, and whether a killed session has left it."""
    if manifest is not None:
        demand_empty(out)
        private_folder(out)
    elif not (out / MANIFEST).is_file() and elsewhere(out) is None:
        raise RunError(f"{out}: no run here ({MANIFEST} is missing)")
    lock: FileLock = take_lock(out, from_elsewhere=True)
    try:
        if manifest is not None:
            # Another process may have come before, and ended.
            demand_empty(out)
        left = elsewhere(out)
        if left is not None and left.is_here and manifest is None:
            report(f"continuing with the files in {left.words}")
            yield Path(left.folder), True
            return
        if left is not None and manifest is None:
            if not scratch.lost:
                raise left.refusal(out)
            report(f"{out}: continuing from the last published state; dropping the files in {left.words}")
        elif left is not None and left.is_here:
            # Of a session that was killed before it had published anything.
            shutil.rmtree(left.folder, ignore_errors=True)
        try:
            place = _new_folder(out, folder)
            try:
                if manifest is None:
                    _take_over(out, place)
                begin_elsewhere(out, place)
            except BaseException:
                shutil.rmtree(place, ignore_errors=True)
                raise
        except OSError as error:
            raise RunError(
                f"--scratch {folder}: cannot be written: {error.strerror or error}; choose another folder"
            ) from error
        yield place, False
    finally:
        lock.close()


def _give_up(out: Path, report: Callable[[str], None]) -> None:
    with contextlib.closing(take_lock(out, from_elsewhere=True)):
        left = elsewhere(out)
        if left is None:
            return
        if left.is_here:
            raise RunError(f"{left.refusal(out)}. It is there")
        report(f"{out}: continuing from the last published state; dropping the files in {left.words}")
        end_elsewhere(out)


def _new_folder(out: Path, folder: Path) -> Path:
    """A folder for this run alone, which other users may not enter, as they may share the one above it."""
    folder = folder.resolve()
    if folder.is_relative_to(out.resolve()):
        raise RunError(f"--scratch {folder}: is inside the run's own folder; choose another")
    folder.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"evigraph-{out.resolve().name}-", dir=folder))


def _take_over(out: Path, place: Path) -> None:
    """Copy the files that a session continues with.

    Raises:
        RunError: The journal is shared, cannot be read, or is open elsewhere.
        OSError: A file cannot be copied.
    """
    journal = out / CALLS
    if journal.is_symlink():
        raise RunError(f"{out}: its journal is one that other runs use too; leave --scratch out")
    for name in (MANIFEST, COPY, CASES, TRACE, CallCount(journal).path.name):
        if (out / name).exists():
            shutil.copy2(out / name, place / name)
    try:
        if journal.exists():
            _end_log(out, journal)
            copy_journal(journal, place / CALLS)
    except sqlite3.Error as error:
        raise RunError(
            f"{out}: cannot be copied to --scratch: {error}; check the files: evigraph check {quoted(out)}"
        ) from error

    # It has the texts of cases as they were before they were corrected, and is made anew where it is damaged.
    with contextlib.suppress(sqlite3.Error):
        if (out / INDEX).exists():
            copy_journal(out / INDEX, place / INDEX)


def _end_log(out: Path, journal: Path) -> None:
    """Make the journal a single file, so that another one can replace it while it is being read.

    Raises:
        RunError: Another process has it open.
        sqlite3.Error: It cannot be read.
    """
    with contextlib.closing(open_to_write(journal)) as database:
        database.execute(f"PRAGMA busy_timeout={_OTHERS_HAVE_IT_S * 1000}")
        try:
            (mode,) = database.execute("PRAGMA journal_mode=DELETE").fetchone()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            mode = "wal"
    if mode == "wal":
        raise RunError(f"{out}: another process reads its journal, such as evigraph view; end that first")


async def _now_and_then(
    folder: RunWriter, scratch: Scratch, ended: asyncio.Event, report: Callable[[str], None]
) -> None:
    """Publish while cases run, so that the loss of this machine costs little."""
    assert scratch.folder is not None
    told = False
    while not ended.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), 60 * scratch.every_minutes or None)
            return
        try:
            await _publish(folder.path, folder.home, scratch.folder)
        except RunStopped as error:
            if not told:
                report(f"{error} (the run continues)")
            told = True


async def _publish(place: Path, out: Path, scratch: Path) -> None:
    """Publish the current state of a run while it is being written.

    Raises:
        RunStopped: It cannot be; it is kept where it is.
    """
    with contextlib.ExitStack() as opened:
        try:
            # No line is written before the next step of the loop, so these belong together. A case's line is
            # written after its trace, and that after its calls are in the journal, which is read later.
            run = [_opened(place / name, opened) for name in (TRACE, CASES, COPY, MANIFEST)]
            await asyncio.to_thread(_publish_with_journal, place, out, run)
        except (OSError, sqlite3.Error, RunError) as error:
            reason = getattr(error, "strerror", None) or error
            again = f"evigraph resume {quoted(out)} --scratch {quoted(scratch)}"
            raise RunStopped(
                f"{out}: cannot be published: {reason}; all that was done is kept in {place}; make room or"
                f" correct that, then: {again}"
            ) from error


_Opened = tuple[str, IO[bytes], int]


def _opened(path: Path, opened: contextlib.ExitStack) -> _Opened:
    file = opened.enter_context(path.open("rb"))
    return path.name, file, os.fstat(file.fileno()).st_size


def _publish_with_journal(place: Path, out: Path, run: list[_Opened]) -> None:
    journal = place / CALLS
    copied = place / _COPY_OF_CALLS.format(CALLS)
    with contextlib.ExitStack() as opened:
        calls: list[_Opened] = []
        if journal.exists():
            count = CallCount(journal).path
            # Read first: a lower count than there are calls is a true one.
            number = count.read_bytes() if count.exists() else b""
            opened.callback(copied.unlink, missing_ok=True)
            copied.unlink(missing_ok=True)
            copy_journal(journal, copied)
            _, file, size = _opened(copied, opened)
            calls = [(CALLS, file, size), (count.name, io.BytesIO(number), len(number))]
        publish_files(out, [*calls, *run])
