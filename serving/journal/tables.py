"""The tables of the call journal. Each distinct string is stored once, deflated, and named by a number."""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

SCHEMA_VERSION = 7
OLDEST_READ = 3
"""Calls of schema 3 have no checksum; there are no batches before schema 5, no column `form` before 6, and
no counts of thinking before 7."""

FORGOTTEN = 2
"""Value of `rejected` for replies that are asked for anew; they stay, as the trace refers to them."""

TABLES = (
    """CREATE TABLE IF NOT EXISTS texts (
        id INTEGER PRIMARY KEY,
        body BLOB NOT NULL           -- TEXT: as it is; BLOB: deflated UTF-8
    )""",
    # The hashes stand by themselves: with a unique column of `texts` each would be stored twice.
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
        crc INTEGER                  -- `checksum` of the row; NULL in rows of schema 3
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

ROW_TEXT_COLUMNS = ("model", "role", "parameters", "failure", "form")
"""Columns of `batch_rows` that hold the number of a text."""

_LEVEL = 1
_MEMORY_LEVEL = 5
"""Of zlib. On prompts of 0.1 to 6 kB, level 9 makes the texts 3 % smaller than level 1; the usual memory
level 8 makes them 0.1 % smaller and took up to three times as long, most of it to get the memory."""

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
    """CRC-32 of a row: of its values, and of the texts that a replay takes from it.

    Args:
        row: Its own `crc` is left out.
        sums: `text_sum` of each of `SUMMED_COLUMNS`.
    """
    # As SQLite hands them back: a whole number in a column of reals is a real.
    values = (*row[:12], float(row.seconds), row.retries, row.rejected, row.server, row.logprobs, *sums)
    return zlib.crc32(repr(values).encode("utf-8", "surrogatepass"))


def sealed(row: CallRow, sums: Sequence[int]) -> CallRow:
    """The row with its checksum."""
    return row._replace(crc=checksum(row, sums))


def moved(row: CallRow, prompt: str, numbers: Mapping[str, int]) -> CallRow:
    """A row for another journal, where its texts have other numbers.

    Args:
        row: Of this journal.
        prompt: Its column `prompt` there.
        numbers: By name of `TEXT_COLUMNS`.
    """
    return CallRow._make((row._asdict() | dict(numbers) | {"prompt": prompt}).values())


class Texts:
    """The texts of a journal, by number."""

    def __init__(self, database: sqlite3.Connection) -> None:
        """Of a journal that is open."""
        self._database = database
        self._known: dict[bytes, int] = {}

    def number(self, text: str) -> int:
        """The number of a text; a new one is stored, so be in a transaction.

        Whoever rolls that back must call `forget`.
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
        """The text of a number."""
        row = self._database.execute("SELECT body FROM texts WHERE id=?", (number,)).fetchone()
        if row is None:
            raise sqlite3.DatabaseError(f"text {number} is missing; the file is malformed")
        return unpack(row[0])

    def forget(self) -> None:
        """Look all numbers up again: some may be of a transaction that was rolled back."""
        self._known.clear()

    def prompt(self, turns: Iterable[tuple[str, str]]) -> str:
        """Roles and texts of a conversation as the column `prompt`."""
        return " ".join(f"{self.number(role)} {self.number(text)}" for role, text in turns)

    def turns(self, prompt: str) -> list[tuple[str, str]]:
        """Roles and texts of a column `prompt`."""
        strings = [self.read(int(number)) for number in prompt.split()]
        return list(zip(strings[::2], strings[1::2], strict=True))

    def _remember(self, digest: bytes, number: int) -> None:
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[digest] = number


def create(database: sqlite3.Connection) -> None:
    """Make the tables that are missing, in the caller's transaction."""
    for table in TABLES:
        database.execute(table)
    database.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def upgrade(database: sqlite3.Connection) -> None:
    """Bring tables of an earlier schema up to this one, in the caller's transaction."""
    if "crc" not in columns(database):
        database.execute("ALTER TABLE calls ADD COLUMN crc INTEGER")
    for table in TABLES:
        database.execute(table)
    if "form" not in columns(database, "batch_rows"):
        database.execute("ALTER TABLE batch_rows ADD COLUMN form INTEGER")
    database.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def columns(database: sqlite3.Connection, table: Literal["calls", "batch_rows"] = "calls") -> list[str]:
    """The columns of a table in this file."""
    return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]


def has_batches(database: sqlite3.Connection) -> bool:
    """Whether the file has the tables of batches; those of earlier schemas that are only read have not."""
    found = database.execute("SELECT COUNT(*) FROM sqlite_schema WHERE name IN ('batches', 'batch_rows')")
    return bool(found.fetchone()[0] == 2)


def text_digest(text: str) -> bytes:
    """SHA-256 of a text; half a surrogate pair, which UTF-8 cannot hold, is hashed all the same."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def pack(text: str) -> str | bytes:
    """A text as it is stored: deflated where that makes it shorter."""
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
