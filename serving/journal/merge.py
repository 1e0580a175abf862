"""Several journals made into one: of runs that asked about different cases, with one recipe and one model.

Rows are read in the order of their keys, in which they are stored, so that pages of the new file are written
in order too; memory holds the numbers of those texts alone that several journals have.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TypeVar

from serving.journal.files import open_to_read
from serving.journal.journal import CallCount, JournalDamaged, JournalError
from serving.journal.tables import (
    COLUMNS,
    INSERT_CALL,
    OLDEST_READ,
    SCHEMA_VERSION,
    SUMMED_COLUMNS,
    TEXT_COLUMNS,
    CallRow,
    checksum,
    columns,
    create,
    moved,
    sealed,
    text_sum,
    unpack,
)

T = TypeVar("T")

_BATCH = 500
_CACHE_KIB = 65536

_READ = "SELECT {}, texts.body FROM calls LEFT JOIN texts ON texts.id = calls.reply ORDER BY key"


class MergedJournal:
    """A new journal that takes in others one after the other. Nothing else may use it before it is closed."""

    def __init__(self, path: Path) -> None:
        """Create it.

        Args:
            path: No file yet. What a kill leaves of it is no journal: it is written without a log.

        Raises:
            JournalError: It cannot be made.
        """
        self.calls = 0
        self.conflicts = 0
        """Calls that two journals have, with other replies; the first one's is kept."""
        self._path = path
        with errors_of(path):
            self._database = sqlite3.connect(path, isolation_level=None)
            for setting in ("journal_mode=OFF", "synchronous=OFF", f"cache_size=-{_CACHE_KIB}"):
                self._database.execute(f"PRAGMA {setting}")
            self._database.execute("BEGIN")
            create(self._database)
            self._database.execute("COMMIT")
        self._last_text = 0

    def add(self, journal: Path) -> None:
        """Take in all calls of a journal, which stays as it is; their checksums are compared.

        One of an earlier schema is read as it stands: what it lacks are checksums and batches.

        Raises:
            JournalDamaged: A call or a text is not what was stored.
            JournalError: It is of a schema that is not read, or cannot be read.
        """
        with errors_of(journal), contextlib.closing(open_to_read(journal)) as source:
            (version,) = source.execute("PRAGMA user_version").fetchone()
            if not OLDEST_READ <= version <= SCHEMA_VERSION:
                raise JournalError(
                    f"{journal}: of schema {version}, and this version reads {OLDEST_READ} to"
                    f" {SCHEMA_VERSION}; merge with the version of Evigraph that wrote it"
                )
            self._database.execute("BEGIN")
            texts = self._add_texts(source)
            found = 0
            for rows in _batches(_whole_rows(journal, source, texts)):
                found += len(rows)
                with errors_of(self._path):
                    self._add_rows(rows)
            with errors_of(self._path):
                self._database.execute("COMMIT")
            expected = CallCount(journal).read()
            if found < expected:
                raise JournalDamaged(f"{journal}: {expected - found:,} of {expected:,} replies are missing")

    def _add_texts(self, source: sqlite3.Connection) -> Callable[[int], int]:
        """Store the texts that are new; what gives the number that a text has here."""
        shared: dict[int, int] = {}
        before = self._last_text
        for hashes in _batches(source.execute("SELECT hash, text FROM hashes ORDER BY hash")):
            with errors_of(self._path):
                shared |= self._add_hashes([(digest, number, number + before) for digest, number in hashes])
        for bodies in _batches(source.execute("SELECT id, body FROM texts ORDER BY id")):
            self._last_text = bodies[-1][0] + before
            new = [(number + before, body) for number, body in bodies if number not in shared]
            with errors_of(self._path):
                self._database.executemany("INSERT INTO texts VALUES (?, ?)", new)

        def here(number: int) -> int:
            return shared.get(number, number + before)

        return here

    def _add_hashes(self, hashes: Sequence[tuple[bytes, int, int]]) -> dict[int, int]:
        """Store hashes of texts, each with its number there and here; the numbers of those that are here."""
        known: dict[int, int] = {}
        for digest, there, here in hashes:
            added = self._database.execute("INSERT OR IGNORE INTO hashes VALUES (?, ?)", (digest, here))
            if not added.rowcount:
                found = self._database.execute("SELECT text FROM hashes WHERE hash=?", (digest,))
                (known[there],) = found.fetchone()
        return known

    def _add_rows(self, rows: Sequence[CallRow]) -> None:
        known = self._known([row.key for row in rows])
        for row in rows:
            before = known.get(row.key)
            self.conflicts += before is not None and before.reply != row.reply
        # Whose reply could be used comes before whose could not.
        new = [row for row in rows if row.key not in known or (known[row.key].rejected and not row.rejected)]
        self._database.executemany(INSERT_CALL, new)
        self.calls += len(rows) - len(known)

    def _known(self, keys: Sequence[bytes]) -> Mapping[bytes, CallRow]:
        places = ",".join("?" * len(keys))
        found = self._database.execute(
            f"SELECT {COLUMNS} FROM calls WHERE key IN ({places})",  # noqa: S608
            keys,
        )
        return {row[0]: CallRow._make(row) for row in found}

    def close(self) -> None:
        """Have it on the disk, with its count beside it.

        Raises:
            JournalError: It cannot be written.
        """
        with errors_of(self._path):
            self._database.close()
            file = os.open(self._path, os.O_RDONLY)
            try:
                os.fsync(file)
            finally:
                os.close(file)
            count = CallCount(self._path)
            count.write(self.calls)
            count.close()


def _batches(rows: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(rows)
    while batch := list(islice(rest, _BATCH)):
        yield batch


def _whole_rows(journal: Path, source: sqlite3.Connection, here: Callable[[int], int]) -> Iterator[CallRow]:
    """The rows of a journal in the order of their keys, each with the numbers that its texts have elsewhere.

    Raises:
        JournalDamaged: A row is not what was stored.
    """

    @lru_cache(maxsize=1024)
    def sum_of(number: int) -> int:
        row = source.execute("SELECT body FROM texts WHERE id=?", (number,)).fetchone()
        if row is None:
            raise sqlite3.DatabaseError(f"text {number} is missing; the file is malformed")
        return text_sum(unpack(row[0]))

    # Calls of the oldest schema have no checksum.
    fields = COLUMNS if "crc" in columns(source) else COLUMNS.removesuffix("crc") + "NULL"
    for *values, reply in source.execute(_READ.format(fields)):
        row = CallRow._make(values)
        if reply is None:
            raise sqlite3.DatabaseError(f"text {row.reply} is missing; the file is malformed")
        sums = [text_sum(unpack(reply)), *(sum_of(getattr(row, name)) for name in SUMMED_COLUMNS[1:])]
        if row.crc is not None and row.crc != checksum(row, sums):
            raise JournalDamaged(f"{journal}: the reply to a call of case {row.case_id!r} is damaged")
        numbers = {name: here(getattr(row, name)) for name in TEXT_COLUMNS}
        prompt = " ".join(str(here(int(number))) for number in row.prompt.split())
        yield sealed(moved(row, prompt, numbers), sums)


@contextlib.contextmanager
def errors_of(path: Path) -> Iterator[None]:
    """Errors of SQLite and the system as those of a journal, with its file."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise JournalError(f"{path}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise JournalDamaged(f"{path}: {error}") from error
    except OSError as error:
        raise JournalError(f"{error.filename or path}: {error.strerror or error}") from error
