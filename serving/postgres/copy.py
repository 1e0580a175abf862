"""The journal that runners have shared, as the `calls.sqlite` of a run folder."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from serving.journal import CallCount, JournalDamaged
from serving.journal_merge import MergedJournal, errors_of
from serving.journal_tables import SUMMED_COLUMNS, TEXT_COLUMNS, CallRow, sealed, text_sum, unpack
from serving.postgres.address import StoreAddress
from serving.postgres.journal import (
    StoredCall,
    as_in_sqlite,
    check_call,
    digests,
    every_call,
    every_text,
)

if TYPE_CHECKING:
    from serving.postgres.link import Connection

_CACHED = 4096


async def copy_journal(address: StoreAddress, connection: Connection, path: Path) -> None:
    """Write all calls to a file, which takes the place of the one that is there once it is whole.

    Args:
        address: Of the database, for messages.
        connection: In a transaction that sees the database at one moment.
        path: The file; no other process has it open.

    Raises:
        JournalDamaged: A call or a text is not what was stored.
        JournalError: The file cannot be written.
        OSError: The same.
    """
    copied = path.with_name(f".{secrets.token_hex(8)}.tmp")
    count = CallCount(copied)
    try:
        journal = CopiedJournal(copied, address)
        async for texts in every_text(connection):
            journal.add_texts(texts)
        async for calls in every_call(connection):
            journal.add_calls(calls)
        journal.close()
        for log in ("-wal", "-shm"):
            path.with_name(f"{path.name}{log}").unlink(missing_ok=True)
        copied.replace(path)
        # In this order: a lower count than there are calls is a true one.
        count.path.replace(CallCount(path).path)
    finally:
        with contextlib.suppress(OSError):
            copied.unlink(missing_ok=True)
            count.path.unlink(missing_ok=True)


class CopiedJournal(MergedJournal):
    """A new journal that takes in the rows of another database: all texts first, then all calls."""

    def __init__(self, path: Path, address: StoreAddress) -> None:
        """Create it; the address is for messages."""
        super().__init__(path)
        self._address = address
        # Most texts of a call are those of many others.
        self._number_of = lru_cache(_CACHED)(self._find_number)

    def add_texts(self, texts: Sequence[tuple[bytes, bytes]]) -> None:
        """Store texts by their hashes, in the order of the hashes."""
        with self._adding():
            first = self._last_text + 1
            self._last_text += len(texts)
            bodies = [(number, as_in_sqlite(body)) for number, (_, body) in enumerate(texts, first)]
            self._database.executemany("INSERT INTO texts VALUES (?, ?)", bodies)
            hashes = [(digest, number) for number, (digest, _) in enumerate(texts, first)]
            self._database.executemany("INSERT INTO hashes VALUES (?, ?)", hashes)

    def add_calls(self, calls: Sequence[StoredCall]) -> None:
        """Store calls whose texts are there; their checksums are compared."""
        with self._adding():
            self._add_rows([self._row(call) for call in calls])

    @contextlib.contextmanager
    def _adding(self) -> Iterator[None]:
        with errors_of(self._path):
            self._database.execute("BEGIN")
            yield
            self._database.execute("COMMIT")

    def _row(self, call: StoredCall) -> CallRow:
        texts = [self._text(getattr(call, name)) for name in SUMMED_COLUMNS]
        check_call(self._address, call, texts)
        numbers = {name: self._number_of(getattr(call, name)) for name in TEXT_COLUMNS}
        return sealed(
            CallRow(
                key=call.key,
                case_id=call.case_id.decode(),
                sample=call.sample,
                prompt=" ".join(str(self._number_of(digest)) for digest in digests(call.prompt)),
                input_tokens=call.input_tokens,
                output_tokens=call.output_tokens,
                cached_tokens=call.cached_tokens,
                seconds=call.seconds,
                retries=call.retries,
                rejected=call.rejected,
                **numbers,
            ),
            [text_sum(text) for text in texts],
        )

    def _find_number(self, digest: bytes) -> int:
        row = self._database.execute("SELECT text FROM hashes WHERE hash=?", (digest,)).fetchone()
        if row is None:
            raise JournalDamaged(f"store {self._address.name}: a text of a call is missing")
        return int(row[0])

    def _text(self, digest: bytes) -> str:
        number = self._number_of(digest)
        (body,) = self._database.execute("SELECT body FROM texts WHERE id=?", (number,)).fetchone()
        return unpack(body)
