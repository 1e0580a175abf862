"""The call journal: what was asked and answered, stored as it arrives, so that nothing is paid for twice.

SQLite in WAL mode with `synchronous=NORMAL`: a commit survives a killed process. Every text is stored once,
whether as a prompt or as a reply, so the journal grows with new text only.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random

from serving.journal_tables import (
    INSERT_CALL,
    SCHEMA_VERSION,
    TEXT_COLUMNS,
    CallRow,
    Texts,
    create,
    text_digest,
    unpack,
)
from serving.messages import Answer, Message, TokenLogprob

_LOCK_SECONDS = 60.0
"""How long to wait for another process that writes."""

_FIND = """
SELECT reply.body, finish.body, input_tokens, output_tokens, cached_tokens, seconds, retries, server.body,
    logprobs.body
FROM calls
JOIN texts AS reply ON reply.id = calls.reply
JOIN texts AS finish ON finish.id = calls.finish_reason
JOIN texts AS server ON server.id = calls.server
JOIN texts AS logprobs ON logprobs.id = calls.logprobs
WHERE key = ?
"""


@dataclass(frozen=True, slots=True)
class Question:
    """Everything that shapes a reply, and so the identity of a call.

    Attributes:
        model: Provider and name, without the address: a server that moves keeps its answers.
        revision: What is known of the weights.
        parameters: Temperature, token limit, seed and reply schema.
        sample: Index of the sample, so that R votes on one prompt are R calls.
        key: SHA-256 over all other fields.
    """

    model: str
    revision: str
    messages: tuple[Message, ...]
    parameters: Mapping[str, Any]
    sample: int
    key: str = field(init=False)

    def __post_init__(self) -> None:
        """Make the key once: it is needed to look up, to store and to record, and a prompt is long."""
        fields = [
            self.model,
            self.revision,
            [[message.role, message.text] for message in self.messages],
            self.parameters,
            self.sample,
        ]
        digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
        object.__setattr__(self, "key", digest)


class JournalError(Exception):
    """The journal cannot be read or written. It ends the run: a reply that is not stored is lost."""


class Journal:
    """The calls of one run, on disk. Use it from one thread; close it at the end."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open or create the journal; `read_only` never disturbs the run that writes it.

        Raises:
            JournalError: The file is no journal or one of another schema, or it cannot be written.
        """
        self.path = path
        with self._errors():
            mode = "ro" if read_only else "rwc"
            address = f"{path.absolute().as_uri()}?mode={mode}"
            # Transactions are begun by hand, as writers: one that reads first may find that it cannot write.
            self._database = sqlite3.connect(
                address, timeout=_LOCK_SECONDS, uri=True, check_same_thread=False, isolation_level=None
            )
            try:
                self._prepare(read_only)
            except BaseException:
                self._database.close()
                raise
        self._texts = Texts(self._database)

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
        _retry_locked(self._database.execute, "PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        if version == 0:
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                create(self._database)

    def find(self, question: Question) -> Answer | None:
        """The stored answer, or None."""
        with self._errors():
            row = self._database.execute(_FIND, (_key(question.key),)).fetchone()
            if row is None:
                return None
            reply, finish_reason, read, written, cached, seconds, retries, server, logprobs = row
            return Answer(
                unpack(reply),
                unpack(finish_reason),
                read,
                written,
                cached,
                seconds,
                retries,
                unpack(server),
                _read_logprobs(unpack(logprobs)),
            )

    def store(self, question: Question, answer: Answer, *, role: str, case_id: str) -> None:
        """Store an answer; one commit, so it is there after a kill."""
        self.store_samples([(question, answer)], role=role, case_id=case_id)

    def store_samples(self, answered: Sequence[tuple[Question, Answer]], *, role: str, case_id: str) -> None:
        """Store the answers of one request, all or none; their questions differ in the sample alone."""
        first = answered[0][0]
        with self._writing():
            number = self._texts.number
            model, role_ = number(first.model), number(role)
            prompt = self._texts.prompt((message.role, message.text) for message in first.messages)
            parameters = number(json.dumps(first.parameters, sort_keys=True))
            rows = [
                CallRow(
                    _key(question.key),
                    model,
                    role_,
                    case_id,
                    question.sample,
                    prompt,
                    parameters,
                    number(answer.text),
                    number(answer.finish_reason),
                    answer.input_tokens,
                    answer.output_tokens,
                    answer.cached_tokens,
                    answer.seconds,
                    answer.retries,
                    rejected=0,
                    server=number(answer.server),
                    logprobs=number(json.dumps(answer.logprobs) if answer.logprobs else ""),
                )
                for question, answer in answered
            ]
            self._database.executemany(INSERT_CALL, rows)

    def reject(self, keys: Sequence[str]) -> None:
        """Mark replies that no parser could use, so that a retry asks again instead of replaying them."""
        with self._writing():
            self._database.executemany(
                "UPDATE calls SET rejected=1 WHERE key=?", [(_key(key),) for key in keys]
            )

    def forget_rejected(self) -> int:
        """Delete the rejected replies; the number of them."""
        with self._writing():
            return self._database.execute("DELETE FROM calls WHERE rejected=1").rowcount

    def count(self) -> int:
        """Number of stored calls."""
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

    def conversation(self, key: str) -> list[Message]:
        """The prompt of a stored call with its reply as the last turn.

        Raises:
            KeyError: No such call.
        """
        with self._errors():
            row = self._database.execute(
                "SELECT prompt, reply FROM calls WHERE key=?", (_key(key),)
            ).fetchone()
            if row is None:
                raise KeyError(key)
            return self._conversation(*row)

    def finish_reason(self, key: str) -> str:
        """Why the model ended a stored reply, as its provider names it.

        Raises:
            KeyError: No such call.
        """
        with self._errors():
            row = self._database.execute(
                "SELECT finish_reason FROM calls WHERE key=?", (_key(key),)
            ).fetchone()
            if row is None:
                raise KeyError(key)
            return self._texts.read(row[0])

    def conversations(self) -> Iterator[list[Message]]:
        """The conversation of every stored call, in no order, streamed."""
        with self._errors():
            for prompt, reply in self._database.execute("SELECT prompt, reply FROM calls"):
                yield self._conversation(prompt, reply)

    def copy_calls(self, keys: Iterable[str], into: Journal) -> None:
        """Copy stored calls with their texts to another journal; keys that are not stored are passed over."""
        for key in dict.fromkeys(keys):
            with self._errors():
                found = self._database.execute("SELECT * FROM calls WHERE key=?", (_key(key),)).fetchone()
            if found is not None:
                self._copy(CallRow(*found), into)

    def _copy(self, row: CallRow, into: Journal) -> None:
        with self._errors():
            turns = self._texts.turns(row.prompt)
            texts = {name: self._texts.read(getattr(row, name)) for name in TEXT_COLUMNS}
        with into._writing():
            numbers = {name: into._texts.number(text) for name, text in texts.items()}
            copy = row._asdict() | numbers | {"prompt": into._texts.prompt(turns)}
            into._database.execute(INSERT_CALL, tuple(copy.values()))

    def _conversation(self, prompt: str, reply: int) -> list[Message]:
        turns = [Message(role, text) for role, text in self._texts.turns(prompt)]
        return [*turns, Message("assistant", self._texts.read(reply))]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._errors():
            try:
                with self._database:
                    self._database.execute("BEGIN IMMEDIATE")
                    yield
            except BaseException:
                self._texts.forget()
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise JournalError(f"{self.path}: {error}") from error

    def close(self) -> None:
        """Close the file; the write-ahead log is folded in."""
        self._database.close()


def _is_locked(error: BaseException) -> bool:
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode == sqlite3.SQLITE_BUSY


# SQLite's own timeout does not cover the switch to WAL while another process creates the file.
_retry_locked = Retrying(
    retry=retry_if_exception(_is_locked),
    stop=stop_after_delay(_LOCK_SECONDS),
    wait=wait_random(0.005, 0.05),
    reraise=True,
)


def _read_logprobs(text: str) -> tuple[TokenLogprob, ...]:
    entries = json.loads(text) if text else []
    return tuple(
        TokenLogprob(token, logprob, tuple((name, value) for name, value in top))
        for token, logprob, top in entries
    )


def _key(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        # No call has such a key.
        return b""


def text_hash(text: str) -> str:
    """SHA-256 of a text, in hex."""
    return text_digest(text).hex()
