"""What is built beside its place and takes it once it is whole, and journals as they can be copied."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO

from runs.record.folder import locked
from runs.record.manifest import RunError
from serving.journal.files import open_to_read, open_to_write
from storage.private import flush_folder, private_folder


def demand_free(out: Path) -> None:
    """Ask whether a new run may stand here.

    Raises:
        RunError: Something does already.
    """
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise RunError(f"{out}: is there already, and is not empty; choose another --out")


@contextlib.contextmanager
def place_beside(out: Path, doing: str) -> Iterator[Path]:
    """A folder to build the run in; what a killed process has left there is removed.

    `doing`, such as `merging`, is the end of the folder's name.

    Raises:
        RunError: Another process is doing it for the same place.
    """
    # Such as `.` has no name of its own.
    place = out.absolute()
    build = place.with_name(f".{place.name}.{doing}")
    private_folder(build)
    with locked(build):
        for left in build.iterdir():
            if not left.name.startswith(".lock"):
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        try:
            yield build
        except BaseException:
            shutil.rmtree(build, ignore_errors=True)
            raise


def publish(build: Path, out: Path) -> None:
    """Let the folder take its place, an empty folder's too."""
    for folder, _, _ in os.walk(build, topdown=False):
        flush_folder(Path(folder))
    build.rename(out)
    flush_folder(build.parent)


def flush(file: IO[bytes]) -> None:
    """Have what was written on the disk for good."""
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
        # Whoever opens it needs no file beside it then.
        target.execute("PRAGMA journal_mode=DELETE")
