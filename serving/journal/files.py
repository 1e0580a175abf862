"""How the file of a journal is opened: to write, on disks of this machine and of others; or only to read."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from storage.disks import disk_of, writable
from storage.private import flush_path

LOCK_SECONDS = 60.0
"""How long to wait for another process that writes."""

_LOG_HEADER = 32
_WITHOUT_FILES = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR)


def log_of(path: Path) -> Path:
    """The write-ahead log of a journal, next to it."""
    return path.with_name(f"{path.name}-wal")


def address(path: Path, mode: str) -> str:
    """A journal as SQLite is to open it; without its locks where the disk has none."""
    return _without_locks(path, mode) if disk_of(path).locks == "none" else _address(path, mode)


def _address(path: Path, mode: str) -> str:
    return f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}"


def _without_locks(path: Path, mode: str) -> str:
    # Unlike `nolock`, this opens a file with a log too, for a connection that has it alone.
    return f"{_address(path, mode)}&vfs=unix-none"


def open_to_write(path: Path | None) -> sqlite3.Connection:
    """Open or create a journal; None for a temporary one.

    Raises:
        sqlite3.Error: It cannot be opened.
    """
    # SQLite deletes the file of an unnamed database as soon as it is open.
    database = _connect("" if path is None else address(path, "rwc"))
    if path is not None and disk_of(path.resolve()).network:
        # A file that has a log already can only be opened alone there; `choose_mode` ends that.
        database.execute("PRAGMA locking_mode=EXCLUSIVE")
    return database


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open a journal for reading, even if SQLite cannot write next to it or share memory.

    Raises:
        sqlite3.Error: It cannot be read.
        OSError: The same.
    """
    database = _connect(address(path, "ro"))
    try:
        database.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()
    except sqlite3.OperationalError as error:
        database.close()
        # SQLite makes a file next to a journal that has a log; the lowest byte is the primary error code.
        kind = error.sqlite_errorcode & 0xFF
        if error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK:
            raise sqlite3.OperationalError(
                "a write was broken off; resume the run, which takes it back"
            ) from error
        folder = path.resolve().parent
        if (
            kind not in _WITHOUT_FILES
            or not path.is_file()
            or (writable(folder) and not disk_of(folder).network)
        ):
            raise
        return _without_files(path)
    except BaseException:
        database.close()
        raise
    return database


def _without_files(path: Path) -> sqlite3.Connection:
    """A journal on read-only storage: opened in place, or copied to memory with its log."""
    path = path.resolve()
    log = log_of(path)
    if not log.exists() or not log.stat().st_size:
        return _connect(f"{address(path, 'ro')}&immutable=1")
    while True:
        before = _beginning(log)
        database = _connect(":memory:")
        with contextlib.closing(_connect(_without_locks(path, "ro"))) as source:
            # The index of the log is kept in memory then, and not in a file.
            source.execute("PRAGMA locking_mode=EXCLUSIVE")
            source.backup(database)
        # A writer may just have folded the log in and begun it anew.
        if _beginning(log) == before:
            return database
        database.close()


def _beginning(log: Path) -> bytes:
    try:
        with log.open("rb") as file:
            return file.read(_LOG_HEADER)
    except FileNotFoundError:
        return b""


def take_back(path: Path) -> None:
    """Undo the commit that a killed writer has left half done in a journal without a log.

    Only for the one writer: a reader whose locks the writer does not see would undo its writes.

    Raises:
        sqlite3.Error: It cannot be undone.
    """
    path = path.resolve()
    if path.exists() and path.with_name(f"{path.name}-journal").exists():
        with contextlib.closing(_connect(address(path, "rw"))) as database:
            database.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()


def choose_mode(database: sqlite3.Connection, path: Path | None) -> None:
    """Have commits kept by a killed process, by the means that the disk has.

    A write-ahead log needs memory that all who have the file open share, so it is not for disks of other
    machines: there a rollback journal is used, and each commit is flushed.
    """
    if path is None or not disk_of(path.resolve()).network:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        return
    database.execute("PRAGMA journal_mode=TRUNCATE")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("PRAGMA locking_mode=NORMAL")
    # The lock is given back at the next look.
    database.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()


def flush_log(path: Path) -> None:
    """Flush the log to the disk, so that commits survive a power cut."""
    # Deleted, where another process has just folded it in and closed it: SQLite flushes then.
    with contextlib.suppress(FileNotFoundError):
        flush_path(log_of(path))


def _connect(name: str) -> sqlite3.Connection:
    # Transactions are begun by hand, as writers: one that reads first may find that it cannot write.
    return sqlite3.connect(
        name, timeout=LOCK_SECONDS, uri=True, check_same_thread=False, isolation_level=None
    )
