"""The call journal: what was asked and answered, stored as it comes in, so that nothing is paid for twice.

SQLite in WAL mode with `synchronous=NORMAL`: a commit survives a killed process. Every message is stored
once by its hash, so the journal grows with new text only.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from serving.reply import TokenLogprob

SCHEMA_VERSION = 2

_TABLES = """
CREATE TABLE IF NOT EXISTS texts (
    hash TEXT PRIMARY KEY,
    body TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS calls (
    key TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    role TEXT NOT NULL,
    case_id TEXT NOT NULL,
    sample INTEGER NOT NULL,
    prompt TEXT NOT NULL,        -- JSON list of [role, text hash]
    parameters TEXT NOT NULL,    -- hash of a JSON object: a reply's schema is as long as its note
    reply TEXT NOT NULL,
    finish_reason TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    seconds REAL NOT NULL,
    retries INTEGER NOT NULL,
    rejected INTEGER NOT NULL DEFAULT 0,
    server TEXT NOT NULL DEFAULT '',
    logprobs TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
"""

# In one transaction: a kill in between must not leave a file that is of neither version.
_FROM_VERSION_1 = f"""
BEGIN IMMEDIATE;
ALTER TABLE calls ADD COLUMN server TEXT NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN logprobs TEXT NOT NULL DEFAULT '';
PRAGMA user_version={SCHEMA_VERSION};
COMMIT;
"""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation; `role` is system, user or assistant."""

    role: str
    text: str


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
        """Make the key once: it is needed to look, to store and to record, and a prompt is long."""
        fields = [
            self.model,
            self.revision,
            [[message.role, message.text] for message in self.messages],
            self.parameters,
            self.sample,
        ]
        digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
        object.__setattr__(self, "key", digest)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one sample. Seconds are of the whole request that the sample was part of."""

    text: str
    finish_reason: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    seconds: float = 0.0
    retries: int = 0
    server: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()


class JournalError(Exception):
    """The journal cannot be read or written. It ends the run: a reply that is not kept is lost."""


class Journal:
    """The calls of one run, on disk. Use it from one thread; close it at the end."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open or create the journal; `read_only` never disturbs the run that writes it.

        Raises:
            JournalError: The file is no journal, or cannot be written.
        """
        self.path = path
        with self._errors():
            mode = "ro" if read_only else "rwc"
            address = f"{path.absolute().as_uri()}?mode={mode}"
            self._database = sqlite3.connect(address, uri=True, check_same_thread=False)
            (version,) = self._database.execute("PRAGMA user_version").fetchone()
            if version > SCHEMA_VERSION:
                raise JournalError(f"{path}: written by a newer Evigraph (schema {version}); update first")
            if read_only:
                return
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.executescript(_FROM_VERSION_1 if version == 1 else _TABLES)
            self._database.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    def find(self, question: Question) -> Answer | None:
        """The stored answer, or None."""
        with self._errors():
            row = self._database.execute(
                "SELECT reply, finish_reason, input_tokens, output_tokens, cached_tokens, seconds, retries,"
                " server, logprobs FROM calls WHERE key=?",
                (question.key,),
            ).fetchone()
        if row is None:
            return None
        *stored, logprobs = row
        return replace(Answer(*stored), logprobs=_read_logprobs(logprobs))

    def store(self, question: Question, answer: Answer, *, role: str, case_id: str) -> None:
        """Store an answer; one commit, so it is there after a kill."""
        self.store_samples([(question, answer)], role=role, case_id=case_id)

    def store_samples(self, answered: Sequence[tuple[Question, Answer]], *, role: str, case_id: str) -> None:
        """Store the answers of one request, all or none; their questions differ in the sample alone."""
        question = answered[0][0]
        turns = [(message.role, text_hash(message.text), message.text) for message in question.messages]
        parameters = json.dumps(question.parameters, sort_keys=True)
        parameters_hash = text_hash(parameters)
        prompt = json.dumps([(role, hash_) for role, hash_, _ in turns])
        texts = [*((hash_, text) for _, hash_, text in turns), (parameters_hash, parameters)]
        rows = [
            (
                question.key,
                question.model,
                role,
                case_id,
                question.sample,
                prompt,
                parameters_hash,
                answer.text,
                answer.finish_reason,
                answer.input_tokens,
                answer.output_tokens,
                answer.cached_tokens,
                answer.seconds,
                answer.retries,
                answer.server,
                json.dumps(answer.logprobs) if answer.logprobs else "",
            )
            for question, answer in answered
        ]
        with self._errors(), self._database:
            self._database.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", texts)
            self._database.executemany(
                "INSERT OR REPLACE INTO calls VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,0,?,?)", rows
            )

    def reject(self, keys: Sequence[str]) -> None:
        """Mark replies that no parser could use, so that a retry asks again instead of replaying them."""
        with self._errors(), self._database:
            self._database.executemany("UPDATE calls SET rejected=1 WHERE key=?", [(key,) for key in keys])

    def forget_rejected(self) -> int:
        """Delete the rejected replies; the number of them."""
        with self._errors(), self._database:
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
                "SELECT model, SUM(input_tokens), SUM(output_tokens), SUM(cached_tokens)"
                " FROM calls GROUP BY model"
            ).fetchall()
        return {model: (read, written, cached) for model, read, written, cached in rows}

    def conversation(self, key: str) -> list[Message]:
        """The prompt of a stored call with its reply as the last turn.

        Raises:
            KeyError: No such call.
        """
        with self._errors():
            row = self._database.execute("SELECT prompt, reply FROM calls WHERE key=?", (key,)).fetchone()
            if row is None:
                raise KeyError(key)
            prompt, reply = row
            turns = [Message(role, self._text(hash_)) for role, hash_ in json.loads(prompt)]
        return [*turns, Message("assistant", reply)]

    def finish_reason(self, key: str) -> str:
        """Why the model ended a stored reply, as its provider names it.

        Raises:
            KeyError: No such call.
        """
        with self._errors():
            row = self._database.execute("SELECT finish_reason FROM calls WHERE key=?", (key,)).fetchone()
        if row is None:
            raise KeyError(key)
        return str(row[0])

    def _text(self, hash_: str) -> str:
        (body,) = self._database.execute("SELECT body FROM texts WHERE hash=?", (hash_,)).fetchone()
        return str(body)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise JournalError(f"{self.path}: {error}") from error

    def close(self) -> None:
        """Close the file; the write-ahead log is folded in."""
        self._database.close()


def _read_logprobs(text: str) -> tuple[TokenLogprob, ...]:
    entries = json.loads(text) if text else []
    return tuple(
        TokenLogprob(token, logprob, tuple((name, value) for name, value in top))
        for token, logprob, top in entries
    )


def text_hash(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
