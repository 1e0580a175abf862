"""The publisher of runs: files appear completely or not at all, whenever the process is killed.

A new run is built in a folder next to its place, and renamed. Files of an existing run are first written
completely into a folder below it, whose renaming commits them: from then on they only have to be moved, and
the next process that opens the run does so after a kill. In object storage a run is complete once the list of
its files is there (`runs.move.pushed`).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO

from cases.texts import quoted
from runs.record.manifest import RunError
from serving.journal.files import open_to_read, open_to_write
from storage.files import write_all
from storage.locks import FileLock, LockedError
from storage.private import flush_path, open_here, private_folder

_BEING_WRITTEN = ".publishing-{}.tmp"
_WHOLE = ".published-"
_AT_ONCE = 1 << 20


def demand_free(out: Path) -> None:
    """Check that a new run may be written here.

    Raises:
        RunError: Something does already.
    """
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise RunError(f"{out}: is there already, and is not empty; choose another --out")


@contextlib.contextmanager
def built_beside(out: Path, doing: str) -> Iterator[Path]:
    """A folder to build a run in, which takes its place at the end, an empty folder's too.

    `doing`, such as `merging`, is the end of its name. Removes leftovers of a killed process.

    Raises:
        RunError: Another process is doing it for the same place.
    """
    # Such as `.`, which has no name.
    place = out.absolute()
    build = place.with_name(f".{place.name}.{doing}")
    private_folder(build)
    try:
        lock = FileLock(build / ".lock")
    except LockedError as error:
        raise RunError(f"{build}: {error}") from None
    with closing(lock):
        for left in build.iterdir():
            if not left.name.startswith(".lock"):
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        try:
            yield build
        except BaseException:
            shutil.rmtree(build, ignore_errors=True)
            raise
        for folder, _, _ in os.walk(build, topdown=False):
            flush_path(Path(folder))
        build.rename(out)
        flush_path(build.parent)


def publish_files(run: Path, files: Iterable[tuple[str, IO[bytes], int]]) -> None:
    """Let files take the place of those of a run, all or none; one process at a time may.

    `files` are in the order of replacement, each with its source and the number of bytes to copy.

    Raises:
        RunError: Files published before cannot be moved into place.
        OSError: A file cannot be read or written; nothing has changed.
    """
    settle(run)
    for left in run.glob(_BEING_WRITTEN.format("*")):
        shutil.rmtree(left, ignore_errors=True)
    name = secrets.token_hex(8)
    staged = run / _BEING_WRITTEN.format(name)
    staged.mkdir(mode=0o700)
    try:
        for number, (file, source, size) in enumerate(files):
            with open_here(staged / f"{number} {file}", "xb") as target:
                copy_bytes(source, target, size)
                os.fsync(target.fileno())
        flush_path(staged)
        staged.rename(run / f"{_WHOLE}{name}")
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    flush_path(run)
    settle(run)


def copy_bytes(source: IO[bytes], target: IO[bytes], size: int) -> None:
    """Copy so many bytes, or as many as there are."""
    while size and (block := source.read(min(size, _AT_ONCE))):
        size -= len(block)
        write_all(target, block)


def settle(run: Path) -> None:
    """Complete a publication that was interrupted by a kill; readers may do so at any time.

    Raises:
        RunError: This user cannot.
    """
    try:
        with os.scandir(run) as entries:
            published = [entry.name for entry in entries if entry.name.startswith(_WHOLE)]
    except OSError:
        return
    for folder in (run / name for name in sorted(published)):
        try:
            for file in sorted(folder.iterdir(), key=lambda one: int(one.name.partition(" ")[0])):
                # Another process may be doing the same.
                with contextlib.suppress(FileNotFoundError):
                    file.replace(run / file.name.partition(" ")[2])
            flush_path(run)
            folder.rmdir()
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise RunError(
                f"{run}: its last publication was broken off and cannot be ended here: {reason}; open it once"
                f" as its owner: evigraph show {quoted(run)}"
            ) from None


def flush(file: IO[bytes]) -> None:
    """Flush written data to the disk."""
    file.flush()
    os.fsync(file.fileno())


def fold_log(journal: Path) -> bool:
    """Put the log of a journal into its file; False where a reader kept that off.

    Raises:
        sqlite3.Error: It cannot be read or written.
    """
    with closing(open_to_write(journal)) as database:
        # A page of the viewer may read for long, and a copy does as well.
        database.execute("PRAGMA busy_timeout=0")
        (busy, _, _) = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


def copy_journal(journal: Path, copy: Path) -> None:
    """Copy a journal at one moment, while others read and write it, to a file without a log.

    Raises:
        sqlite3.Error: It cannot be read, or the copy not written.
        OSError: The same.
    """
    with closing(open_to_read(journal)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
        # A reader then needs only this file.
        target.execute("PRAGMA journal_mode=DELETE")
