"""Calls of some cases taken out of a journal, so that nothing of their texts is left in its file."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from serving.journal.files import open_to_write
from serving.journal.journal import CallCount, JournalError
from serving.journal.tables import ROW_TEXT_COLUMNS, TEXT_COLUMNS

_BATCH = 500


def purge_calls(path: Path, case_ids: Collection[str] | None) -> tuple[int, int]:
    """Delete the calls of some cases, and every text that no other call has; then write the file anew.

    Calls that are away in batches are deleted too; whatever comes back of them is left alone.

    Returns:
        How many calls and how many texts.

    Raises:
        JournalError: Another process uses the journal, or it cannot be written.
    """
    path = path.resolve()
    try:
        with closing(open_to_write(path)) as database:
            database.execute("PRAGMA secure_delete=ON")
            database.execute("BEGIN IMMEDIATE")
            removed = _delete_calls(database, case_ids), _delete_texts(database)
            (left,) = database.execute("SELECT COUNT(*) FROM calls").fetchone()
            # A lower number is true, whenever this is broken off.
            count = CallCount(path)
            count.write(left)
            count.close()
            database.execute("COMMIT")
            _fold_in(database, path)
            database.execute("VACUUM")
            _fold_in(database, path)
    except sqlite3.Error as error:
        hint = "; is the run shown or written by another process?" if "locked" in str(error) else ""
        raise JournalError(f"{path}: {error}{hint}") from error
    return removed


def _delete_calls(database: sqlite3.Connection, case_ids: Collection[str] | None) -> int:
    tables = ("calls", "batch_rows")
    if case_ids is None:
        return sum(database.execute(f"DELETE FROM {table}").rowcount for table in tables)  # noqa: S608
    ids = list(case_ids)
    found = 0
    for start in range(0, len(ids), _BATCH):
        part = ids[start : start + _BATCH]
        which = f"case_id IN ({','.join('?' * len(part))})"
        for table in tables:
            found += database.execute(f"DELETE FROM {table} WHERE {which}", part).rowcount  # noqa: S608
    return found


def _delete_texts(database: sqlite3.Connection) -> int:
    database.execute("CREATE TEMP TABLE kept (id INTEGER PRIMARY KEY)")
    for table, names in (("calls", TEXT_COLUMNS), ("batch_rows", ROW_TEXT_COLUMNS)):
        for prompt, *others in database.execute(f"SELECT prompt, {', '.join(names)} FROM {table}"):  # noqa: S608
            numbers = {*map(int, prompt.split()), *others} - {None}
            database.executemany("INSERT OR IGNORE INTO kept VALUES (?)", [(one,) for one in numbers])
    removed = database.execute("DELETE FROM texts WHERE id NOT IN (SELECT id FROM kept)").rowcount
    database.execute("DELETE FROM hashes WHERE text NOT IN (SELECT id FROM kept)")
    database.execute("DROP TABLE kept")
    return int(removed)


def _fold_in(database: sqlite3.Connection, path: Path) -> None:
    (busy, *_) = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise JournalError(f"{path}: another process reads it; end it (evigraph view?) and purge again")
