"""The tables of the call journal and their rows. Each distinct string is stored once, by a number."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from serving.protocol.messages import Answer, reply_details
from serving.protocol.request import AnyRequest

SCHEMA_VERSION = 7

FORGOTTEN = 2
"""Value of `rejected` for replies that are asked for anew; they stay, as the trace refers to them."""

TABLES = (
    """CREATE TABLE IF NOT EXISTS texts (
        id INTEGER PRIMARY KEY,
        body BLOB NOT NULL           -- TEXT: as it is; BLOB: deflated UTF-8
    )""",
    # The hashes have their own table: with a unique column of `texts` each would be stored twice.
    """CREATE TABLE IF NOT EXISTS hashes (
        hash BLOB PRIMARY KEY,       -- SHA-256 of a text's UTF-8
        text INTEGER NOT NULL
    ) WITHOUT ROWID""",
    # Rows stay far below the kB from which WITHOUT ROWID gives a row whole pages: all long columns are texts.
    """CREATE TABLE IF NOT EXISTS calls (
        key BLOB PRIMARY KEY,
        model INTEGER NOT NULL,      -- a text, as all INTEGER columns but the counts
        role INTEGER NOT NULL,
        case_id TEXT NOT NULL,
        sample INTEGER NOT NULL,
        prompt TEXT NOT NULL,        -- role text role text ..., separated by blanks
        parameters INTEGER NOT NULL, -- a JSON object
        reply INTEGER NOT NULL,
        finish_reason INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        cached_tokens INTEGER NOT NULL,
        seconds REAL NOT NULL,
        retries INTEGER NOT NULL,
        rejected INTEGER NOT NULL,   -- 1: no parser could use it; 2: and it is to be asked for anew
        server INTEGER NOT NULL,
        logprobs INTEGER NOT NULL,   -- `reply_details`
        crc INTEGER                  -- `checksum` of the row; NULL in rows of earlier versions
    ) WITHOUT ROWID""",
    # Last, so that the others begin on the same pages as in files of earlier schemas.
    """CREATE TABLE IF NOT EXISTS batches (
        number INTEGER PRIMARY KEY,
        model TEXT NOT NULL,         -- as the user names it
        endpoint TEXT NOT NULL,
        metadata TEXT NOT NULL,      -- JSON: what the batch is found by
        state TEXT NOT NULL,
        intended REAL NOT NULL,      -- by this machine's clock
        submitted REAL,
        remote TEXT,                 -- JSON: what the provider last said; NULL before it has answered
        counts TEXT NOT NULL         -- JSON: what became of the rows
    )""",
    """CREATE TABLE IF NOT EXISTS batch_rows (
        key BLOB PRIMARY KEY,        -- of a call that has no reply yet
        batch INTEGER NOT NULL,
        request BLOB NOT NULL,       -- key of the first sample of its request, which is the custom id
        model INTEGER NOT NULL,      -- this and the next as in `calls`
        role INTEGER NOT NULL,
        case_id TEXT NOT NULL,
        sample INTEGER NOT NULL,
        prompt TEXT NOT NULL,
        parameters INTEGER NOT NULL,
        most_read INTEGER NOT NULL,  -- tokens, for a budget
        most_written INTEGER NOT NULL,
        failure INTEGER,             -- a text: JSON of class and message; NULL while it is away
        form INTEGER                 -- a text of earlier versions; NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS batch_requests ON batch_rows (request)",
)

ROW_TEXT_COLUMNS = ("model", "role", "parameters", "failure")
"""Columns of `batch_rows` that hold the number of a text."""

_LEVEL = 1
_MEMORY_LEVEL = 5
"""zlib's memory level. On prompts of 0.1 to 6 kB, level 9 makes the texts 3 % smaller than level 1; the usual
 memory level 8 makes them 0.1 % smaller and took up to three times as long, most of it to get the memory."""

_MAX_KNOWN = 4096


class CallRow(NamedTuple):
    """A row of `calls`; the numbers of texts come from `Texts`."""

    key: bytes
    model: int
    role: int
    case_id: str
    sample: int
    prompt: str
    parameters: int
    reply: int
    finish_reason: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    seconds: float
    retries: int
    rejected: int
    server: int
    logprobs: int
    crc: int | None = None


COLUMNS = ", ".join(CallRow._fields)

SUMMED_COLUMNS = ("reply", "finish_reason", "server", "logprobs")
"""Columns of texts whose content belongs to the checksum of a row."""

TEXT_COLUMNS = ("model", "role", "parameters", "reply", "finish_reason", "server", "logprobs")
"""Columns of `calls` that hold the number of a text."""

_VALUES = ", ".join("?" * len(CallRow._fields))
INSERT_CALL = f"INSERT OR REPLACE INTO calls ({COLUMNS}) VALUES ({_VALUES})"  # noqa: S608


def text_sum(text: str) -> int:
    """CRC-32 of a text."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def checksum(row: CallRow, sums: Sequence[int]) -> int:
    """CRC-32 of a row: of its values, and of the texts that a replay takes from it."""
    # As SQLite hands them back: a whole number in a column of reals is a real.
    values = (*row[:12], float(row.seconds), row.retries, row.rejected, row.server, row.logprobs, *sums)
    return zlib.crc32(repr(values).encode("utf-8", "surrogatepass"))


class Asked(NamedTuple):
    """The part of a row that is known before the answer."""

    key: bytes
    model: int
    role: int
    case_id: str
    sample: int
    prompt: str
    parameters: int


class Texts:
    """The texts of a journal, by number."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._known: dict[bytes, int] = {}

    def number(self, text: str) -> int:
        """The number of a text; a new one is stored, so be in a transaction.

        A caller that rolls this back must call `forget`.
        """
        digest = text_digest(text)
        number = self._stored_number(digest, text)
        if number is None:
            added = self._database.execute("INSERT INTO texts (body) VALUES (?)", (pack(text),))
            number = int(added.lastrowid or 0)
            self._database.execute("INSERT OR REPLACE INTO hashes VALUES (?, ?)", (digest, number))
            self._remember(digest, number)
        return number

    def _stored_number(self, digest: bytes, text: str) -> int | None:
        """The number of a text, if it is stored; one that is damaged on disk is stored anew."""
        known = self._known.get(digest)
        if known is not None:
            return known
        row = self._database.execute("SELECT text FROM hashes WHERE hash=?", (digest,)).fetchone()
        if row is None:
            return None
        try:
            if self.read(row[0]) != text:
                return None
        except sqlite3.DatabaseError:
            return None
        self._remember(digest, row[0])
        return int(row[0])

    def read(self, number: int) -> str:
        row = self._database.execute("SELECT body FROM texts WHERE id=?", (number,)).fetchone()
        if row is None:
            raise sqlite3.DatabaseError(f"text {number} is missing; the file is malformed")
        return unpack(row[0])

    def forget(self) -> None:
        """Look all numbers up again: some may be of a transaction that was rolled back."""
        self._known.clear()

    def asked(self, request: AnyRequest) -> list[Asked]:
        """State of a request's calls, whose texts are stored."""
        model, role = self.number(request.model), self.number(request.role)
        prompt = self.prompt((message.role, message.text) for message in request.messages)
        parameters = self.number(json.dumps(request.parameters, sort_keys=True))
        keys = {sample: stored_key(request.key(sample)) for sample in request.samples}
        return [
            Asked(key, model, role, request.case_id, sample, prompt, parameters)
            for sample, key in keys.items()
        ]

    def row(self, asked: Asked, answer: Answer, rejected: int = 0) -> CallRow:
        """The row of an answered call, whose texts are stored."""
        details = reply_details(answer)
        row = CallRow(
            *asked,
            self.number(answer.text),
            self.number(answer.finish_reason),
            answer.input_tokens,
            answer.output_tokens,
            answer.cached_tokens,
            answer.seconds,
            answer.retries,
            rejected,
            self.number(answer.server),
            self.number(details),
        )
        texts = (answer.text, answer.finish_reason, answer.server, details)
        return row._replace(crc=checksum(row, [text_sum(text) for text in texts]))

    def marked(self, row: CallRow, rejected: int) -> CallRow:
        row = row._replace(rejected=rejected)
        sums = [text_sum(self.read(getattr(row, name))) for name in SUMMED_COLUMNS]
        return row._replace(crc=checksum(row, sums))

    def prompt(self, turns: Iterable[tuple[str, str]]) -> str:
        """Roles and texts of a conversation as the column `prompt`."""
        return " ".join(f"{self.number(role)} {self.number(text)}" for role, text in turns)

    def turns(self, prompt: str) -> list[tuple[str, str]]:
        strings = [self.read(int(number)) for number in prompt.split()]
        return list(zip(strings[::2], strings[1::2], strict=True))

    def _remember(self, digest: bytes, number: int) -> None:
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[digest] = number


class Copier:
    """Takes rows over into another journal, where their texts have other numbers."""

    def __init__(self, read: Callable[[int], str], texts: Texts) -> None:
        """`read` gives a text by its number here; `texts` are those of the other journal."""

        def copied(number: int) -> tuple[int, int]:
            text = read(number)
            return texts.number(text), text_sum(text)

        # The number of a text there, and its sum.
        self._copied = lru_cache(maxsize=_MAX_KNOWN)(copied)

    def call(self, row: CallRow) -> CallRow:
        """A row of `calls` in stored form."""
        numbers = {name: self.number(getattr(row, name)) for name in TEXT_COLUMNS}
        moved = {**numbers, "prompt": self.prompt(row.prompt)}
        copy = CallRow._make((row._asdict() | moved).values())
        sums = [self._copied(getattr(row, name))[1] for name in SUMMED_COLUMNS]
        return copy._replace(crc=checksum(copy, sums))

    def number(self, number: int) -> int:
        return self._copied(number)[0]

    def prompt(self, prompt: str) -> str:
        return " ".join(str(self.number(int(number))) for number in prompt.split())


def is_whole(row: CallRow, sum_of: Callable[[int], int]) -> bool:
    """Whether a row's checksum matches.

    Raises:
        sqlite3.DatabaseError: A text is missing or damaged.
    """
    return row.crc in (None, checksum(row, [sum_of(getattr(row, name)) for name in SUMMED_COLUMNS]))


def create(database: sqlite3.Connection) -> None:
    """Make the tables that are missing, in the caller's transaction."""
    for table in TABLES:
        database.execute(table)
    database.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def stored_key(text: str) -> bytes:
    """A key in stored form; for an invalid text, one that matches no call."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def text_digest(text: str) -> bytes:
    """SHA-256 of a text; half a surrogate pair, which UTF-8 cannot hold, is hashed all the same."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def pack(text: str) -> str | bytes:
    """A text in stored form: deflated if that makes it shorter."""
    body = text.encode("utf-8", "surrogatepass")
    deflater = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, _MEMORY_LEVEL)
    packed = deflater.compress(body) + deflater.flush()
    # SQLite takes no half of a surrogate pair as TEXT; `isascii` is a quick way to know that there is none.
    return text if len(body) <= len(packed) and text.isascii() else packed


def unpack(body: str | bytes) -> str:
    """A stored text as it was.

    Raises:
        sqlite3.DatabaseError: It is damaged.
    """
    if isinstance(body, str):
        return body
    try:
        return zlib.decompress(body, -zlib.MAX_WBITS).decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError) as error:
        raise sqlite3.DatabaseError(f"a text is malformed: {error}") from error
