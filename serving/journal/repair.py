"""Check of a whole journal, and a copy of its intact content.

Checksums find damaged rows, and hashes find damaged texts. Parts that SQLite cannot read are skipped in small
steps; of a damaged write-ahead log it reads everything before the damage.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from serving.journal.files import log_of, open_to_read
from serving.journal.journal import CallCount, JournalDamaged, JournalError
from serving.journal.tables import (
    COLUMNS,
    INSERT_CALL,
    SCHEMA_VERSION,
    CallRow,
    Copier,
    Texts,
    create,
    is_whole,
    text_digest,
    text_sum,
    unpack,
)

DAMAGED_TEXT = "(this text was damaged on disk)"

_PAGE = 4096
_PARTS, _FINEST = 2**8, 2**16
"""Into how many parts the keys are divided, at first and at most, to pass over what cannot be read."""
_TEXTS_AT_ONCE = 100
_KEYS = 2**64
_NAMED_CASES = 5


@dataclass(slots=True)
class JournalReport:
    """Report on a journal.

    Attributes:
        calls: Whole ones.
        damaged: Calls that are there and cannot be used.
        missing: Calls that were stored and are not there.
        faults: Each in words, with file and place.
    """

    calls: int = 0
    damaged: int = 0
    missing: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def lost(self) -> int:
        """Calls that have to be paid for again."""
        return self.damaged + self.missing


def look(path: Path) -> JournalReport:
    """Read a journal from end to end, and change nothing; it may be in use.

    Raises:
        JournalError: It is of another schema.
        OSError: It cannot be read.
    """
    path = path.resolve()
    report, expected, count = JournalReport(), 0, CallCount(path)
    try:
        expected = count.read()
    except JournalDamaged as error:
        report.faults.append(str(error).partition(";")[0])
    if path.is_file():
        try:
            with closing(_Reader(path, open_to_read(path))) as reader:
                _look_at_rows(path, reader, report)
                if report.calls + report.damaged and not count.exists():
                    report.faults.append(f"{count.path}: the file is missing")
        except sqlite3.DatabaseError as error:
            report.faults.append(f"{path}: {error}")
    elif expected:
        report.faults.append(f"{path}: the file is missing")
    report.missing = max(0, expected - report.calls - report.damaged)
    if report.missing:
        report.faults.append(f"{path}: {report.missing:,} of {expected:,} stored replies are missing")
    return report


def _look_at_rows(path: Path, reader: _Reader, report: JournalReport) -> None:
    if damage := reader.structure():
        report.faults.append(f"{path}: {damage}")
    if damaged := reader.damaged_texts():
        report.faults.append(f"{path}: {damaged:,} texts are damaged")
    cases: dict[str, None] = {}
    for row in reader.rows():
        if reader.is_whole(row):
            report.calls += 1
        else:
            report.damaged += 1
            cases[str(row.case_id)] = None
    if report.damaged:
        named = ", ".join([*cases][:_NAMED_CASES]) + (", ..." if len(cases) > _NAMED_CASES else "")
        report.faults.append(f"{path}: {report.damaged:,} replies are damaged, of cases {named}")


def repair(path: Path, aside: Path) -> JournalReport:
    """Write a journal anew of all that is whole in it. No other process may use it.

    Returns:
        Report from before the repair. The calls that it lists as lost will be requested again.

    Raises:
        JournalError: It is of another schema.
        OSError: A file cannot be read or written.
    """
    path = path.resolve()
    report = look(path)
    workplace = path.with_name(f".{path.name}.repair")
    shutil.rmtree(workplace, ignore_errors=True)
    workplace.mkdir(mode=0o700)
    try:
        old, new = workplace / "old.sqlite", workplace / "new.sqlite"
        old.touch(mode=0o600)
        if path.is_file():
            shutil.copyfile(path, old)
        if log_of(path).is_file():
            shutil.copyfile(log_of(path), log_of(old))
        report.calls = _copy_whole(old, new)
        aside.mkdir(mode=0o700, parents=True)
        count = CallCount(path)
        for left in (path, log_of(path), path.with_name(f"{path.name}-shm"), count.path):
            if left.exists():
                left.rename(aside / left.name)
        new.replace(path)
        count.write(report.calls)
        count.close()
    finally:
        shutil.rmtree(workplace, ignore_errors=True)
    return report


def _copy_whole(old: Path, new: Path) -> int:
    """Copy the whole calls to a new journal; their number."""
    copied = 0
    with closing(sqlite3.connect(new, isolation_level=None)) as database:
        database.execute("BEGIN")
        create(database)
        database.execute("COMMIT")
        try:
            damaged = sqlite3.connect(f"{old.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
            # A file that is shorter than its first page says is read as far as it goes.
            damaged.execute("PRAGMA writable_schema=ON")
            opened = _Reader(old, damaged)
        except sqlite3.DatabaseError:
            return 0
        with closing(opened) as reader:
            database.execute("BEGIN")
            copier = Copier(reader.text, Texts(database))
            for row in reader.rows():
                if reader.is_whole(row):
                    database.execute(INSERT_CALL, copier.call(row))
                    copied += 1
            _copy_batches(reader, database, copier)
            database.execute("COMMIT")
    return copied


def _copy_batches(reader: _Reader, database: sqlite3.Connection, copier: Copier) -> None:
    """Copy what can be read of batches: rows that are lost would be paid for again."""
    for batch in reader.table("batches"):
        places = ", ".join("?" * len(batch))
        with contextlib.suppress(sqlite3.DatabaseError):
            database.execute(f"INSERT INTO batches VALUES ({places})", batch)  # noqa: S608
    for row in reader.table("batch_rows"):
        # A row that is damaged itself may hold anything.
        with contextlib.suppress(sqlite3.DatabaseError, ValueError, TypeError, AttributeError):
            *known, model, role, case_id, sample, prompt, parameters, read, written, failure, _ = row
            values = (
                *(*known, copier.number(model), copier.number(role), case_id, sample, copier.prompt(prompt)),
                *(copier.number(parameters), read, written),
                *(None if failure is None else copier.number(failure), None),
            )
            places = ", ".join("?" * len(values))
            database.execute(f"INSERT INTO batch_rows VALUES ({places})", values)  # noqa: S608


class _Reader:
    """Reads whatever can be read of a journal that may be damaged."""

    def __init__(self, path: Path, database: sqlite3.Connection) -> None:
        self._database = database
        self._texts = Texts(database)
        try:
            (version,) = self._database.execute("PRAGMA user_version").fetchone()
            if 0 < version < SCHEMA_VERSION:
                raise JournalError(f"{path}: written by an older Evigraph (schema {version})")
            (tables,) = database.execute("SELECT COUNT(*) FROM sqlite_schema WHERE name='calls'").fetchone()
        except BaseException:
            self._database.close()
            raise
        self._is_empty = not tables
        self._sum = lru_cache(maxsize=4096)(lambda number: text_sum(self._texts.read(number)))

    def close(self) -> None:
        self._database.close()

    def structure(self) -> str:
        """Faults of the file's pages, in words; empty if none."""
        found = [row[0] for row in self._database.execute("PRAGMA quick_check(3)")]
        return "" if found == ["ok"] else "; ".join(" ".join(str(line).split()) for line in found)

    def damaged_texts(self) -> int:
        """How many texts are not what their hashes say. Few are in memory at a time."""
        if self._is_empty:
            return 0
        last = 0
        with contextlib.suppress(sqlite3.DatabaseError):
            (last,) = self._database.execute("SELECT COALESCE(MAX(id), 0) FROM texts").fetchone()
        (pages,) = self._database.execute("PRAGMA page_count").fetchone()
        # A row of a damaged page may have any number; no text takes less than two bytes.
        last = min(last or pages * _PAGE, pages * _PAGE // 2)
        sql = "SELECT id, body FROM texts WHERE id >= ? AND id < ?"
        damaged = 0
        for first in range(1, last + 1, _TEXTS_AT_ONCE):
            end = min(first + _TEXTS_AT_ONCE, last + 1)
            for number, body in self._ranged(sql, int, first, end, max(1, last // _FINEST)):
                damaged += not self._is_hashed(number, body)
        return damaged

    def _is_hashed(self, number: object, body: object) -> bool:
        """Whether the hashes know a text; if they cannot be read, it is accepted."""
        try:
            digest = text_digest(unpack(body) if isinstance(body, str | bytes) else "")
        except sqlite3.DatabaseError:
            return False
        try:
            row = self._database.execute("SELECT text FROM hashes WHERE hash=?", (digest,)).fetchone()
        except sqlite3.DatabaseError:
            return True
        return row is not None and row[0] == number

    def table(self, name: str) -> Iterator[tuple[Any, ...]]:
        """Rows of a table of batches, one by one: those before a damaged page are whole."""
        with contextlib.suppress(sqlite3.DatabaseError):
            yield from self._database.execute(f"SELECT * FROM {name}")  # noqa: S608

    def rows(self) -> Iterator[CallRow]:
        """All rows that can be read, whole or not."""
        if self._is_empty:
            return
        sql = f"SELECT {COLUMNS} FROM calls WHERE key >= ? AND key < ?"  # noqa: S608
        width = _KEYS // _PARTS
        for part in range(_PARTS):
            low, high = part * width, (part + 1) * width
            for values in self._ranged(sql, _key, low, high, _KEYS // _FINEST):
                # A damaged row may hold anything; `is_whole` finds out.
                yield CallRow._make(values)

    def is_whole(self, row: CallRow) -> bool:
        try:
            if row.crc is None:
                # Of rows without a checksum, as earlier versions wrote them, all texts have to be there.
                for number in row.prompt.split():
                    self._sum(int(number))
            return is_whole(row, self._sum)
        except (sqlite3.Error, TypeError, ValueError, AttributeError, OverflowError):
            return False

    def text(self, number: int) -> str:
        """A text, or words in its place."""
        try:
            return self._texts.read(number)
        except sqlite3.Error:
            return DAMAGED_TEXT

    def _ranged(
        self, sql: str, bound: Callable[[int], int | bytes], low: int, high: int, finest: int
    ) -> Iterator[tuple[object, ...]]:
        """Rows of a range, in ever smaller parts where it cannot be read at once."""
        try:
            found = self._database.execute(sql, (bound(low), bound(high))).fetchall()
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            if high - low > finest:
                middle = (low + high) // 2
                yield from self._ranged(sql, bound, low, middle, finest)
                yield from self._ranged(sql, bound, middle, high, finest)
        else:
            yield from found


def _key(number: int) -> bytes:
    """The lowest key of a part; above all keys for the end of the last one."""
    return number.to_bytes(8, "big") if number < _KEYS else b"\xff" * 33
