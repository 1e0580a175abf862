"""The call journal: requests and replies, stored as they arrive, so that nothing is paid for twice.

SQLite in WAL mode with `synchronous=NORMAL`: a commit survives a killed process. The log is flushed to the
disk once a second and when the journal is closed, so a power cut costs at most the replies that came since.
Every text is stored once, whether as a prompt or as a reply, so the journal grows with new text only.

Every call has a checksum, which is compared whenever it is replayed. A small file next to the journal also
has the number of stored calls: SQLite ignores a write-ahead log that was deleted, truncated or damaged.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random

from cases.texts import quoted
from serving.journal.batches import JournalBatches
from serving.journal.files import LOCK_SECONDS, choose_mode, flush_log, open_to_read, open_to_write, take_back
from serving.journal.tables import (
    COLUMNS,
    FORGOTTEN,
    INSERT_CALL,
    SCHEMA_VERSION,
    CallRow,
    Copier,
    Texts,
    create,
    is_whole,
    stored_key,
    text_digest,
    text_sum,
    unpack,
)
from serving.policy.traffic import Traffic, size
from serving.protocol.messages import Answer, Message, read_details
from serving.protocol.request import AnyRequest
from storage.disks import disk_of

_FLUSH_SECONDS = 1.0
"""Interval between flushes to the disk: a power cut costs at most the replies of that time."""

# A text that is missing is damage, and no reason to pass over the call.
_FIND = f"""
SELECT {COLUMNS}, reply_.body, finish_.body, server_.body, logprobs_.body
FROM calls
LEFT JOIN texts AS reply_ ON reply_.id = calls.reply
LEFT JOIN texts AS finish_ ON finish_.id = calls.finish_reason
LEFT JOIN texts AS server_ ON server_.id = calls.server
LEFT JOIN texts AS logprobs_ ON logprobs_.id = calls.logprobs
WHERE key = ?
"""  # noqa: S608


class JournalError(Exception):
    """The journal cannot be read or written. It ends the run: a reply that is not stored is lost."""


class JournalDamaged(JournalError):
    """The stored content differs from what was written. Nothing was changed."""


class CallCount:
    """Minimum number of calls of a journal, in a file next to it, so that losses in SQLite are noticed.

    Written after each commit, in one write; a kill between the two leaves a lower number, which is true too.
    """

    def __init__(self, journal: Path) -> None:
        # Journals are shared by links to them.
        self.path = journal.resolve().with_name(f"{journal.resolve().name}.count")
        self._file: int | None = None

    def read(self) -> int:
        """The number; 0 where an earlier version wrote the journal.

        Raises:
            JournalDamaged: The file holds something else.
        """
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return 0
        number, _, crc = text.partition(b" ")
        if not text:
            return 0
        if crc != b"%08x\n" % zlib.crc32(number) or not number.isdigit():
            raise JournalDamaged(f"{self.path}: damaged{_look_at(self.path.with_suffix(''))}")
        return int(number)

    def exists(self) -> bool:
        return self.path.exists() and self.path.stat().st_size > 0

    def write(self, number: int) -> None:
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        text = b"%020d" % number
        os.pwrite(self._file, b"%s %08x\n" % (text, zlib.crc32(text)), 0)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _look_at(journal: Path) -> str:
    return f"; check its content: evigraph check {quoted(journal)}"


_Answered = tuple[AnyRequest, Mapping[int, Answer]]
"""A request and its answers by sample."""


class Journal:
    """The calls of one run, on disk; close it at the end.

    Calls of a running case are committed in a thread, so that the event loop never waits for the disk:
    arrivals during a commit go into the next one. Everything else runs in the caller's thread.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        """Open or create the journal; `read_only` never disturbs the run that writes it.

        Args:
            path: None for a temporary one, of which nothing is left, even by a kill.
            read_only: Whether nothing will be stored.

        Raises:
            JournalError: The file is not a journal of this schema, or it cannot be written.
        """
        self.path = path or Path("(a temporary journal)")
        # Journals are shared by links to them.
        self._file = path.resolve() if path is not None else None
        self._flushed = time.monotonic()
        self._count = CallCount(path) if path is not None else None
        with self._errors():
            if not read_only and self._file is not None:
                take_back(self._file)
                self._demand_count()
            self._database = open_to_read(path) if read_only and path is not None else open_to_write(path)
            try:
                self._prepare(read_only)
            except BaseException:
                self._database.close()
                raise
            self._stored = 0 if read_only else self.count()
            if self._count is not None and not read_only and not self._count.exists():
                self._count.write(self._stored)
        self._texts = Texts(self._database)
        # Where readers do not wait for a writer, replies are found while others are committed.
        self._reader = self._database
        if self._file is not None and not read_only and not disk_of(self._file).network:
            with self._errors():
                self._reader = open_to_read(self._file)
        self._one = threading.RLock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._queue: list[tuple[_Answered, asyncio.Future[None]]] = []
        self._committing = False
        self.batches = JournalBatches(self._database, self._texts, self._writing, self._errors, self._add)

    def _demand_count(self) -> None:
        """Compare the number of calls before anything is written: closing a writer folds in a damaged log.

        Raises:
            JournalDamaged: Calls are missing.
        """
        expected = self._count.read() if self._count is not None else 0
        if not expected:
            return
        found = 0
        if self.path.exists():
            # A reader does not change the write-ahead log.
            database = open_to_read(self.path)
            try:
                (tables,) = database.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()
                if tables:
                    (found,) = database.execute("SELECT COUNT(*) FROM calls").fetchone()
            finally:
                database.close()
        if found < expected:
            raise JournalDamaged(
                f"{self.path}: {expected - found:,} of {expected:,} stored replies are missing; was"
                f" {self.path.name}-wal or the file itself deleted, cut or damaged?{_look_at(self.path)}"
            )

    def _prepare(self, read_only: bool) -> None:
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise JournalError(f"{self.path}: written by a newer Evigraph (schema {version}); update first")
        if 0 < version < SCHEMA_VERSION:
            raise JournalError(
                f"{self.path}: written by an older Evigraph (schema {version}); start the run anew, or read"
                " it with that version"
            )
        if read_only:
            return
        _retry_locked(choose_mode, self._database, self._file)
        if version < SCHEMA_VERSION:
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                create(self._database)

    def find(self, key: str) -> Answer | None:
        """The stored answer to a call, or None.

        Raises:
            JournalDamaged: Its checksum does not match.
        """
        with self._errors():
            found = self._reader.execute(_FIND, (stored_key(key),)).fetchone()
            if found is None:
                return None
            row, bodies = CallRow(*found[:-4]), found[-4:]
            if row.rejected == FORGOTTEN:
                return None
            if None in bodies:
                raise sqlite3.DatabaseError("a text is missing; the file is malformed")
            reply, finish_reason, server, details = texts = [unpack(body) for body in bodies]
            numbers = (row.reply, row.finish_reason, row.server, row.logprobs)
            sums = {number: text_sum(text) for number, text in zip(numbers, texts, strict=True)}
            if not is_whole(row, sums.__getitem__):
                raise JournalDamaged(
                    f"{self.path}: the reply to a call of case {row.case_id!r} is malformed: its checksum"
                    f" does not match{_look_at(self.path)}"
                )
            return Answer(
                reply,
                finish_reason,
                row.input_tokens,
                row.output_tokens,
                row.cached_tokens,
                row.seconds,
                row.retries,
                server,
                **read_details(details),
            )

    async def find_all(self, request: AnyRequest) -> dict[int, Answer]:
        """The stored answers to a request, by sample.

        Raises:
            JournalDamaged: A checksum does not match.
        """
        keys = [request.key(sample) for sample in request.samples]
        if self._file is not None and self._reader is self._database:
            # One connection does both, so a find may have to wait for a commit.
            loop = asyncio.get_running_loop()
            answers = [await loop.run_in_executor(self._thread, self.find, key) for key in keys]
        else:
            answers = [self.find(key) for key in keys]
        found = zip(request.samples, answers, strict=True)
        return {sample: answer for sample, answer in found if answer is not None}

    async def keep_all(self, request: AnyRequest, answers: Mapping[int, Answer]) -> None:
        """Store the answers of one request; they are committed when this returns."""
        if self._file is None:
            self.store(request, answers)
        else:
            stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._queue.append(((request, answers), stored))
            if not self._committing:
                self._commit_queue()
            await stored

    def _commit_queue(self) -> None:
        queue, self._queue = self._queue, []
        self._committing = True
        work = asyncio.get_running_loop().run_in_executor(
            self._thread, self._store, [one for one, _ in queue]
        )
        work.add_done_callback(partial(self._committed, [stored for _, stored in queue]))

    def _committed(self, waiting: Sequence[asyncio.Future[None]], work: asyncio.Future[None]) -> None:
        self._committing = False
        if self._queue:
            self._commit_queue()
        error = work.exception()
        for stored in waiting:
            # The case may have been stopped meanwhile.
            if stored.done():
                continue
            if error is None:
                stored.set_result(None)
            else:
                stored.set_exception(error)

    async def reject_all(self, keys: Sequence[str]) -> None:
        """`reject`, without keeping the event loop waiting."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self.reject, keys)

    def store(self, request: AnyRequest, answers: Mapping[int, Answer]) -> None:
        """Store the answers of one request, all or none; they are there after a kill."""
        self._store([(request, answers)])

    def _store(self, requests: Sequence[_Answered]) -> None:
        with self._writing():
            added = 0
            for request, answers in requests:
                asked = (one for one in self._texts.asked(request) if one.sample in answers)
                added += self._insert([self._texts.row(one, answers[one.sample]) for one in asked])
        self._add(added)

    def _insert(self, rows: Sequence[CallRow]) -> int:
        """Store rows; returns how many are not newer versions of stored calls."""
        places = ",".join("?" * len(rows))
        (known,) = self._database.execute(
            f"SELECT COUNT(*) FROM calls WHERE key IN ({places})",  # noqa: S608
            [row.key for row in rows],
        ).fetchone()
        self._database.executemany(INSERT_CALL, rows)
        return len(rows) - int(known)

    def _add(self, added: int) -> None:
        with self._one, self._errors():
            self._stored += added
            if self._count is not None:
                self._count.write(self._stored)
            now = time.monotonic()
            if self._file is not None and now - self._flushed > _FLUSH_SECONDS:
                flush_log(self._file)
                self._flushed = now

    def reject(self, keys: Sequence[str]) -> None:
        """Mark replies that no parser could use, so that a retry asks again instead of replaying them."""
        with self._writing():
            for key in keys:
                self._mark("key=?", stored_key(key), rejected=1)

    def forget_rejected(self) -> int:
        """Have the rejected replies asked for anew; the number of them."""
        with self._writing():
            return self._mark("rejected=?", 1, rejected=FORGOTTEN)

    def _mark(self, which: str, value: bytes | int, *, rejected: int) -> int:
        found = self._database.execute(f"SELECT {COLUMNS} FROM calls WHERE {which}", (value,)).fetchall()  # noqa: S608
        for row in map(CallRow._make, found):
            self._database.execute(INSERT_CALL, self._texts.marked(row, rejected))
        return len(found)

    def has(self, key: str) -> bool:
        with self._errors():
            row = self._database.execute("SELECT 1 FROM calls WHERE key=?", (stored_key(key),)).fetchone()
        return row is not None

    def count(self) -> int:
        with self._errors():
            (number,) = self._database.execute("SELECT COUNT(*) FROM calls").fetchone()
        return int(number)

    def tokens(self) -> dict[str, tuple[int, int, int]]:
        """Tokens read, written and cached by the stored calls of each model."""
        with self._errors():
            rows = self._database.execute(
                "SELECT body, SUM(input_tokens), SUM(output_tokens), SUM(cached_tokens)"
                " FROM calls JOIN texts ON texts.id = calls.model GROUP BY texts.id"
            ).fetchall()
            return {unpack(model): (read, written, cached) for model, read, written, cached in rows}

    def tokens_by_case(self) -> dict[str, dict[str, tuple[int, int, int]]]:
        """The same of each case, by case and model; replies that are asked for anew left out."""
        with self._errors():
            rows = self._database.execute(
                "SELECT case_id, body, SUM(input_tokens), SUM(output_tokens), SUM(cached_tokens)"
                " FROM calls JOIN texts ON texts.id = calls.model WHERE rejected != ?"
                " GROUP BY case_id, texts.id",
                (FORGOTTEN,),
            ).fetchall()
        found: dict[str, dict[str, tuple[int, int, int]]] = {}
        for case_id, model, *counts in rows:
            read, written, cached = counts
            found.setdefault(case_id, {})[unpack(model)] = read, written, cached
        return found

    def conversation(self, key: str) -> list[Message]:
        """The prompt of a stored call with its reply as the last turn.

        Raises:
            KeyError: No such call.
        """
        with self._errors():
            return self._conversation(*self._stored_columns(key, "prompt, reply"))

    def finish_reason(self, key: str) -> str:
        """Why the model ended a stored reply, as its provider names it.

        Raises:
            KeyError: No such call.
        """
        with self._errors():
            return self._texts.read(*self._stored_columns(key, "finish_reason"))

    def _stored_columns(self, key: str, names: str) -> tuple[Any, ...]:
        sql = f"SELECT {names} FROM calls WHERE key=?"  # noqa: S608
        row: tuple[Any, ...] | None = self._database.execute(sql, (stored_key(key),)).fetchone()
        if row is None:
            raise KeyError(key)
        return row

    def conversations(self) -> Iterator[list[Message]]:
        """The conversation of every stored call, in no order, streamed."""
        with self._errors():
            for prompt, reply in self._database.execute("SELECT prompt, reply FROM calls"):
                yield self._conversation(prompt, reply)

    def traffic(self) -> dict[str, Traffic]:
        """Traffic of the stored calls by server; failed requests are not included.

        Samples that one request brought are counted as if they had been asked for with one prompt.
        """
        lengths: dict[int, int] = {}

        def length(number: int) -> int:
            if number not in lengths:
                lengths[number] = size([self._texts.read(number)])
            return lengths[number]

        found: dict[str, Traffic] = {}
        prompts: set[tuple[int, str]] = set()
        with self._errors():
            for server, prompt, reply in self._database.execute("SELECT server, prompt, reply FROM calls"):
                # Every other number is a role's.
                is_new = (server, prompt) not in prompts
                prompts.add((server, prompt))
                sent = sum(length(int(number)) for number in prompt.split()[1::2]) if is_new else 0
                name = self._texts.read(server)
                found[name] = found.get(name, Traffic()).plus(Traffic(int(is_new), 1, sent, length(reply)))
        return found

    def copy_calls(self, keys: Iterable[str], into: Journal) -> None:
        """Copy stored calls with their texts to another journal; keys that are not stored are passed over."""

        def read(number: int) -> str:
            with self._errors():
                return self._texts.read(number)

        sql = f"SELECT {COLUMNS} FROM calls WHERE key=?"  # noqa: S608
        with self._errors():
            found = [
                self._database.execute(sql, (stored_key(key),)).fetchone() for key in dict.fromkeys(keys)
            ]
        copier = Copier(read, into._texts)
        with into._writing():
            rows = [copier.call(CallRow._make(row)) for row in found if row is not None]
            added = into._insert(rows)
        into._add(added)

    def _conversation(self, prompt: str, reply: int) -> list[Message]:
        turns = [Message(role, text) for role, text in self._texts.turns(prompt)]
        return [*turns, Message("assistant", self._texts.read(reply))]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._one, self._errors():
            try:
                with self._database:
                    self._database.execute("BEGIN IMMEDIATE")
                    yield
            except BaseException:
                self._texts.forget()
                raise

    def _errors(self) -> AbstractContextManager[None]:
        return errors_of(self.path, _look_at(self.path))

    def close(self) -> None:
        """Commit replies and close the file; merges the write-ahead log."""
        self._thread.shutdown()
        queue, self._queue = self._queue, []
        try:
            if queue:
                self._store([one for one, _ in queue])
        finally:
            if self._reader is not self._database:
                self._reader.close()
            self._database.close()
            if self._count is not None:
                self._count.close()


def _is_locked(error: BaseException) -> bool:
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode == sqlite3.SQLITE_BUSY


# SQLite's own timeout does not cover the switch to WAL while another process creates the file.
_retry_locked = Retrying(
    retry=retry_if_exception(_is_locked),
    stop=stop_after_delay(LOCK_SECONDS),
    wait=wait_random(0.005, 0.05),
    reraise=True,
)


@contextmanager
def errors_of(path: Path, hint: str = "") -> Iterator[None]:
    """Errors of SQLite and the system as those of a journal, with its file; `hint` is added to damage."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise JournalError(f"{path}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise JournalDamaged(f"{path}: {error}{hint}") from error
    except OSError as error:
        raise JournalError(f"{error.filename or path}: {error.strerror or error}") from error


def text_hash(text: str) -> str:
    """SHA-256 of a text, in hex."""
    return text_digest(text).hex()
