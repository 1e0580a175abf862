"""Batches in the call journal: intents, submitted batches, outcome of each row.

A call has its row here from just before its batch is submitted until its reply is among the calls.
A row whose request failed stays with its failure, so that the case fails as often as it runs, until a retry
asks again.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from serving.journal.tables import INSERT_CALL, Asked, Texts, stored_key, unpack
from serving.protocol.batch_provider import RemoteBatch
from serving.protocol.errors import ERROR_CLASSES, CallError, ErrorClass
from serving.protocol.messages import UNKNOWN, Answer, Message, with_counts
from serving.protocol.request import AnyRequest

State = Literal["intended", "away", "lost", "harvested", "closed", "refused"]
"""`intended` may or may not be at the provider; `lost` was there and is not any more; `harvested` has left
files there; `closed` and `refused` are over."""

Outcome = Literal["answered", "failed", "missing", "doubled", "differing", "foreign"]
"""Outcome of a row; `differing` ones came twice with different content, of which the first is kept."""


class Wanted(NamedTuple):
    """A request that is to go into a batch.

    Attributes:
        most_read: Tokens of its prompt, at most.
        most_written: Tokens of one reply, at most.
    """

    request: AnyRequest
    most_read: int
    most_written: int

    @property
    def keys(self) -> list[str]:
        """Keys of its calls in the journal; the first names its row in the batch."""
        return [self.request.key(sample) for sample in self.request.samples]


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A batch.

    Attributes:
        model: As the user names it.
        metadata: Identifies it at the provider.
        intended: When the intent was written, by this machine's clock.
        submitted: When the provider had answered, by the same.
        remote: The provider's last report: id, state, done, created, expires, files, reason.
        counts: Outcomes of its rows.
        away: Calls of it without a reply or a failure.
    """

    number: int
    model: str
    endpoint: str
    metadata: Mapping[str, str]
    state: State
    intended: float
    submitted: float | None
    remote: Mapping[str, Any]
    counts: Mapping[str, int]
    away: int

    @property
    def remote_id(self) -> str:
        """The provider's; empty before it is known."""
        return str(self.remote.get("id", ""))


class Harvested(NamedTuple):
    """Outcome of a stored result.

    Attributes:
        keys: Of the calls that got an answer.
        answers: Theirs.
        most: The tokens that the request had reserved, read and written.
    """

    outcome: Outcome
    case_id: str = ""
    keys: tuple[str, ...] = ()
    answers: tuple[Answer, ...] = ()
    most: tuple[int, int] = (0, 0)


Writing = Callable[[], AbstractContextManager[None]]


class JournalBatches:
    """The batches of a journal. All that writes is one commit."""

    def __init__(
        self,
        database: sqlite3.Connection,
        texts: Texts,
        writing: Writing,
        errors: Writing,
        added: Callable[[int], None],
    ) -> None:
        self._database = database
        self._texts = texts
        self._writing = writing
        self._errors = errors
        self._added = added
        self._new = 0

    def standing(self, key: str) -> CallError | Literal["away"] | None:
        """State of a call: its failure, `away` while in a batch, or None."""
        row = self._one("SELECT failure FROM batch_rows WHERE key=?", bytes.fromhex(key))
        if row is None:
            return None
        return "away" if row[0] is None else self._failure(row[0])

    def intend(self, model: str, endpoint: str, metadata: Mapping[str, str], wanted: Iterable[Wanted]) -> int:
        """Record an intended submission; returns the number of the batch.

        Raises:
            ValueError: A call is away already.
        """
        with self._writing():
            added = self._database.execute(
                "INSERT INTO batches (model, endpoint, metadata, state, intended, counts)"
                " VALUES (?, ?, ?, 'intended', ?, '{}')",
                (model, endpoint, json.dumps(dict(metadata)), time.time()),
            )
            number = int(added.lastrowid or 0)
            for one in wanted:
                self._intend(number, one)
        return number

    def _intend(self, batch: int, wanted: Wanted) -> None:
        first, *_ = calls = self._texts.asked(wanted.request)
        for call in calls:
            # All samples of a request read its prompt once.
            most_read = wanted.most_read if call is first else 0
            values = (*call[1:], most_read, wanted.most_written, None, None)
            try:
                self._database.execute(
                    "INSERT INTO batch_rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (call.key, batch, first.key, *values),
                )
            except sqlite3.IntegrityError:
                raise ValueError(f"call {call.key.hex()} is in a batch already") from None

    def void(self, number: int) -> int:
        """Forget an intent that never came to a batch; how many calls are to be asked for again."""
        with self._writing():
            rows = self._database.execute("DELETE FROM batch_rows WHERE batch=?", (number,)).rowcount
            self._database.execute("DELETE FROM batches WHERE number=?", (number,))
        return int(rows)

    def looked(self, number: int, remote: RemoteBatch) -> None:
        said = {
            "id": remote.id,
            "state": remote.state,
            "requests": remote.requests,
            "done": remote.done,
            "created": None if remote.created is None else remote.created.timestamp(),
            "expires": None if remote.expires is None else remote.expires.timestamp(),
            "files": list(remote.files),
            "reason": remote.reason,
        }
        with self._writing():
            self._database.execute(
                "UPDATE batches SET remote=?, state='away', submitted=COALESCE(submitted, ?) WHERE number=?",
                (json.dumps(said), time.time(), number),
            )

    def harvest(
        self, number: int, results: Iterable[tuple[str, tuple[Answer, ...], CallError | None]]
    ) -> list[Harvested]:
        """Store the results of some rows of a batch, each in the order of the samples.

        Answers become calls of the journal; samples that are missing get a failure.
        """
        before = self._new
        with self._writing():
            found = [self._harvest(number, *result) for result in results]
        self._added(self._new - before)
        return found

    def _harvest(
        self, number: int, custom_id: str, answers: tuple[Answer, ...], failure: CallError | None
    ) -> Harvested:
        key = stored_key(custom_id)
        rows = self._database.execute(
            "SELECT key, model, role, case_id, sample, prompt, parameters, failure, most_read, most_written"
            " FROM batch_rows"
            " WHERE request=? AND batch=? ORDER BY sample",
            (key, number),
        ).fetchall()
        if not rows:
            return self._harvested_before(key, answers)
        case_id, failed_before = rows[0][3], rows[0][7] is not None
        most = (0, 0) if failed_before else (sum(row[8] for row in rows), sum(row[9] for row in rows))
        if failure is not None:
            if failed_before:
                return Harvested("doubled", case_id)
            self._fail("request=? AND batch=?", (key, number), failure)
            return Harvested("failed", case_id, most=most)
        answers = self._counted(answers, rows[0][5], rows[0][9])
        for row, answer in zip(rows, answers, strict=False):
            self._store(Asked._make(row[:7]), answer)
            self._database.execute("DELETE FROM batch_rows WHERE key=?", (row[0],))
        if len(answers) < len(rows):
            left_out = CallError("internal", "the provider left out a sample")
            self._fail("request=? AND batch=?", (key, number), left_out)
        keys = tuple(row[0].hex() for row in rows[: len(answers)])
        return Harvested("answered", case_id, keys, answers[: len(rows)], most)

    def _harvested_before(self, key: bytes, answers: tuple[Answer, ...]) -> Harvested:
        row = self._database.execute("SELECT reply, case_id FROM calls WHERE key=?", (key,)).fetchone()
        if row is None:
            return Harvested("foreign")
        same = not answers or self._texts.read(row[0]) == answers[0].text
        return Harvested("doubled" if same else "differing", row[1])

    def _counted(self, answers: tuple[Answer, ...], prompt: str, limit: int) -> tuple[Answer, ...]:
        """With estimates where the provider counts nothing; only those need the prompt."""
        messages: list[Message] = []
        if answers and answers[0].input_tokens in (UNKNOWN, 0):
            messages = [Message(role, text) for role, text in self._texts.turns(prompt)]
        return tuple(with_counts(answers, messages, limit))

    def _store(self, asked: Asked, answer: Answer) -> None:
        known = self._database.execute("SELECT 1 FROM calls WHERE key=?", (asked.key,)).fetchone()
        self._new += known is None
        self._database.execute(INSERT_CALL, self._texts.row(asked, answer))

    def samples(self, custom_id: str) -> int:
        """How many calls a row asked for; 1 where they are answered, 0 for one that is not known."""
        key = stored_key(custom_id)
        (found,) = self._one("SELECT COUNT(*) FROM batch_rows WHERE request=?", key) or (0,)
        if not found and self._one("SELECT 1 FROM calls WHERE key=?", key) is not None:
            return 1
        return int(found)

    def fail_rest(self, number: int, error: CallError) -> int:
        """Give every call of a batch that has neither reply nor failure this failure; how many."""
        with self._writing():
            return self._fail("batch=? AND failure IS NULL", (number,), error)

    def _fail(self, which: str, values: tuple[Any, ...], error: CallError) -> int:
        failure = self._texts.number(json.dumps([error.error_class, str(error)]))
        changed = self._database.execute(
            f"UPDATE batch_rows SET failure=? WHERE {which}",  # noqa: S608
            (failure, *values),
        )
        return int(changed.rowcount)

    def finish(self, number: int, state: State, counts: Mapping[str, int]) -> None:
        with self._writing():
            self._database.execute(
                "UPDATE batches SET state=?, counts=? WHERE number=?",
                (state, json.dumps(dict(counts)), number),
            )

    def release(self, number: int) -> int:
        """Have the calls of a lost batch wait for it again; how many."""
        with self._writing():
            changed = self._database.execute("UPDATE batch_rows SET failure=NULL WHERE batch=?", (number,))
        return int(changed.rowcount)

    def forget_failure(self, key: str) -> None:
        with self._writing():
            self._database.execute(
                "DELETE FROM batch_rows WHERE key=? AND failure IS NOT NULL", (bytes.fromhex(key),)
            )

    def forget_failures(self) -> int:
        """Have the calls that failed asked for again; how many."""
        with self._writing():
            return int(self._database.execute("DELETE FROM batch_rows WHERE failure IS NOT NULL").rowcount)

    def records(self, states: Sequence[State] = ()) -> list[BatchRecord]:
        """Batches in the order in which they were made; all, or those in some states."""
        away = dict(self._all("SELECT batch, COUNT(*) FROM batch_rows WHERE failure IS NULL GROUP BY batch"))
        rows = self._all(
            "SELECT number, model, endpoint, metadata, state, intended, submitted, remote, counts"
            " FROM batches ORDER BY number"
        )
        return [
            BatchRecord(
                number,
                model,
                endpoint,
                json.loads(metadata),
                state,
                intended,
                submitted,
                json.loads(remote) if remote else {},
                json.loads(counts),
                away.get(number, 0),
            )
            for number, model, endpoint, metadata, state, intended, submitted, remote, counts in rows
            if not states or state in states
        ]

    def away(self) -> int:
        """Calls that are in batches without a reply or a failure."""
        (found,) = self._one("SELECT COUNT(*) FROM batch_rows WHERE failure IS NULL") or (0,)
        return int(found)

    def waiting_cases(self) -> set[str]:
        return {case_id for (case_id,) in self._all("SELECT case_id FROM batch_rows WHERE failure IS NULL")}

    def reserved(self) -> list[tuple[str, str, int, int]]:
        """Case, model, and the most tokens that each call that is away may read and write."""
        rows = self._all(
            "SELECT case_id, body, most_read, most_written FROM batch_rows"
            " JOIN texts ON texts.id = batch_rows.model WHERE failure IS NULL"
        )
        return [(case_id, unpack(model), read, written) for case_id, model, read, written in rows]

    def reserved_by(self, number: int) -> list[tuple[str, int, int]]:
        """Case, and the most tokens of each call of a batch that is away."""
        return self._all(
            "SELECT case_id, most_read, most_written FROM batch_rows WHERE batch=? AND failure IS NULL",
            number,
        )

    def failures(self) -> Counter[str]:
        """Calls that failed and were not asked again, by error class."""
        rows = self._all(
            "SELECT failure, COUNT(*) FROM batch_rows WHERE failure IS NOT NULL GROUP BY failure"
        )
        found: Counter[str] = Counter()
        for failure, count in rows:
            found[self._failure(failure).error_class] += count
        return found

    def _failure(self, number: int) -> CallError:
        with self._errors():
            error_class, message = json.loads(self._texts.read(number))
        known: ErrorClass = error_class if error_class in ERROR_CLASSES else "internal"
        return CallError(known, message)

    def _one(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        with self._errors():
            row: tuple[Any, ...] | None = self._database.execute(sql, values).fetchone()
        return row

    def _all(self, sql: str, *values: object) -> list[Any]:
        with self._errors():
            return self._database.execute(sql, values).fetchall()
