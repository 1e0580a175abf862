"""Several journals made into one: of runs that asked about different cases, with one recipe and one model.

Rows are read in the order of their keys, in which they are stored, so that pages of the new file are written
in order too.
"""

from __future__ import annotations

import contextlib
import sqlite3
from functools import lru_cache
from pathlib import Path

from serving.journal.files import open_to_read
from serving.journal.journal import CallCount, JournalDamaged, JournalError, errors_of
from serving.journal.tables import (
    COLUMNS,
    INSERT_CALL,
    SCHEMA_VERSION,
    CallRow,
    Copier,
    Texts,
    create,
    is_whole,
    text_sum,
)
from storage.private import flush_path

_CACHE_KIB = 65536


class MergedJournal:
    """A new journal that takes in others one after the other. Nothing else may use it before it is closed."""

    def __init__(self, path: Path) -> None:
        """Create it.

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
        self._texts = Texts(self._database)

    def add(self, journal: Path) -> None:
        """Add all calls of a journal, which is not changed; compares checksums.

        Raises:
            JournalDamaged: A checksum of a call or text does not match.
            JournalError: It is of another schema, or cannot be read.
        """
        with errors_of(journal), contextlib.closing(open_to_read(journal)) as source:
            (version,) = source.execute("PRAGMA user_version").fetchone()
            if version != SCHEMA_VERSION:
                raise JournalError(
                    f"{journal}: of schema {version}, and this version reads {SCHEMA_VERSION}; merge with the"
                    " version of Evigraph that wrote it"
                )
            texts = Texts(source)
            copier = Copier(texts.read, self._texts)
            sum_of = lru_cache(maxsize=4096)(lambda number: text_sum(texts.read(number)))
            found = 0
            self._database.execute("BEGIN")
            for row in map(CallRow._make, source.execute(f"SELECT {COLUMNS} FROM calls ORDER BY key")):  # noqa: S608
                if not is_whole(row, sum_of):
                    raise JournalDamaged(f"{journal}: the reply to a call of case {row.case_id!r} is damaged")
                found += 1
                with errors_of(self._path):
                    self._add_row(copier.call(row))
            with errors_of(self._path):
                self._database.execute("COMMIT")
            expected = CallCount(journal).read()
            if found < expected:
                raise JournalDamaged(f"{journal}: {expected - found:,} of {expected:,} replies are missing")

    def _add_row(self, row: CallRow) -> None:
        known = self._database.execute("SELECT reply, rejected FROM calls WHERE key=?", (row.key,)).fetchone()
        if known is None:
            self.calls += 1
        elif known[0] != row.reply:
            self.conflicts += 1
        # Whose reply could be used comes before whose could not.
        if known is None or (known[1] and not row.rejected):
            self._database.execute(INSERT_CALL, row)

    def close(self) -> None:
        """Flush it to the disk, with its count next to it.

        Raises:
            JournalError: It cannot be written.
        """
        with errors_of(self._path):
            self._database.close()
            flush_path(self._path)
            count = CallCount(self._path)
            count.write(self.calls)
            count.close()
