"""The call journal of a run that several runners share, in PostgreSQL.

A call has the same identity as in `calls.sqlite`, and texts are stored once, by their hash. A reply is
durable before the graph sees it, so another runner goes on from it. Where two have asked the same question,
the first reply stays and both go on with that.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from serving.journal import JournalDamaged, Question
from serving.journal_tables import FORGOTTEN, pack, text_digest, text_sum, unpack
from serving.messages import Answer, read_details, reply_details
from serving.postgres.address import StoreAddress
from serving.postgres.link import Link, Trips
from serving.traffic import Traffic, count

if TYPE_CHECKING:
    from serving.postgres.link import Connection

_MAX_KNOWN = 65_536
"""Hashes of stored texts that are remembered."""

_AS_IT_IS, _DEFLATED = b"T", b"Z"
_DIGEST = 32
_FETCHED = 500


class StoredCall(NamedTuple):
    """A row of `calls`; hashes stand for texts."""

    key: bytes
    case_id: bytes
    sample: int
    model: bytes
    role: bytes
    parameters: bytes
    reply: bytes
    finish_reason: bytes
    server: bytes
    logprobs: bytes
    prompt: bytes
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    seconds: float
    retries: int
    crc: int = 0
    rejected: int = 0


READ_TEXTS = ("reply", "finish_reason", "server", "logprobs")
"""Columns whose texts a replay takes, and the checksum covers."""

_TYPES = {
    **dict.fromkeys(("sample", "input_tokens", "output_tokens", "cached_tokens", "retries", "crc"), "bigint"),
    "seconds": "double precision",
    "rejected": "smallint",
}
COLUMNS = ", ".join(StoredCall._fields)
_ARRAYS = ", ".join(f"%b::{_TYPES.get(name, 'bytea')}[]" for name in StoredCall._fields)
_REPLACED = ", ".join(f"{name} = EXCLUDED.{name}" for name in StoredCall._fields[1:])

# One statement, so one trip and one transaction. Who stores a forgotten call anew replaces it.
_KEEP = f"""
WITH added AS (
    INSERT INTO texts (hash, body) SELECT * FROM unnest(%b::bytea[], %b::bytea[]) ON CONFLICT DO NOTHING
)
INSERT INTO calls ({COLUMNS}) SELECT * FROM unnest({_ARRAYS})
ON CONFLICT (key) DO UPDATE SET {_REPLACED} WHERE calls.rejected = {FORGOTTEN}
RETURNING key
"""  # noqa: S608 - names of columns

# A text that is missing is damage, and no reason to pass over the call.
_FIND = f"""
SELECT {", ".join(f"calls.{name}" for name in StoredCall._fields)}, {", ".join(f"{n}_.body" for n in READ_TEXTS)}
FROM calls {" ".join(f"LEFT JOIN texts AS {n}_ ON {n}_.hash = calls.{n}" for n in READ_TEXTS)}
WHERE key = ANY(%b::bytea[]) AND rejected <> {FORGOTTEN}
"""  # noqa: S608, E501


class _Wanted(NamedTuple):
    """The answers of one request, as they are to be stored."""

    rows: list[StoredCall]
    answers: list[Answer]
    texts: dict[bytes, str]


class PostgresJournal:
    """The calls of one run, in the database that its runners share. Close it at the end."""

    def __init__(self, address: StoreAddress, outage_s: float, report: Callable[[str], None]) -> None:
        """Of a database whose tables are there; nothing is opened yet."""
        self._address = address
        # A look-up need not wait for a commit.
        self._reading = Link(address, outage_s, report)
        self._writing = Link(address, outage_s, report)
        self._finds = Trips(self._find)
        self._keeps = Trips(self._keep)
        self._known: set[bytes] = set()

    async def find_all(self, questions: Sequence[Question]) -> dict[int, Answer]:
        """The stored answers of questions, by sample.

        Raises:
            JournalDamaged: One is not what was stored.
            StoreError: The database was away for too long.
        """
        return await self._finds.take(questions)

    async def keep_all(
        self, answered: Sequence[tuple[Question, Answer]], *, role: str, case_id: str
    ) -> dict[int, Answer]:
        """Store the answers of one request, all or none; durable when this returns.

        Args:
            answered: Questions that differ in the sample alone.
            role: Of the model.
            case_id: Of the case.

        Returns:
            What is stored for each sample: another runner's answer, where that came first.
        """
        return await self._keeps.take(_wanted(answered, role, case_id))

    async def reject_all(self, keys: Sequence[str]) -> None:
        """Mark replies that no parser could use, so that a retry asks again instead of replaying them."""
        given = [bytes.fromhex(key) for key in keys]

        async def mark(connection: Connection) -> None:
            await connection.execute(
                "UPDATE calls SET rejected = 1 WHERE key = ANY(%b::bytea[]) AND rejected = 0", (given,)
            )

        await self._writing.do(mark)

    async def forget_rejected(self) -> None:
        """Have the rejected replies asked for anew."""

        async def forget(connection: Connection) -> None:
            await connection.execute("UPDATE calls SET rejected = %s WHERE rejected = 1", (FORGOTTEN,))

        await self._writing.do(forget)

    async def close(self) -> None:
        """Close the connections, once what was taken is stored."""
        await self._finds.settle()
        await self._keeps.settle()
        await self._reading.close()
        await self._writing.close()

    async def _find(self, asked: list[Sequence[Question]]) -> list[dict[int, Answer]]:
        keys = list({bytes.fromhex(question.key) for questions in asked for question in questions})
        found = await self._look_up(keys)
        return [
            {
                question.sample: found[key]
                for question in questions
                if (key := bytes.fromhex(question.key)) in found
            }
            for questions in asked
        ]

    async def _look_up(self, keys: list[bytes]) -> dict[bytes, Answer]:
        async def fetch(connection: Connection) -> list[Any]:
            async with connection.cursor(binary=True) as cursor:
                return await (await cursor.execute(_FIND, (keys,))).fetchall()

        rows = await self._reading.do(fetch)
        found = {row[0]: self._answer(row) for row in rows}
        received = sum(len(body or b"") for row in rows for body in row[-len(READ_TEXTS) :])
        self._count(Traffic(1, len(found), 0, received))
        return found

    def _answer(self, row: Sequence[Any]) -> Answer:
        call, bodies = StoredCall(*row[: -len(READ_TEXTS)]), row[-len(READ_TEXTS) :]
        try:
            texts = [unpacked(body) for body in bodies if body is not None]
        except ValueError:
            texts = []
        check_call(self._address, call, texts)
        reply, finish_reason, server, details = texts
        counts = (call.input_tokens, call.output_tokens, call.cached_tokens)
        return Answer(
            reply, finish_reason, *counts, call.seconds, call.retries, server, **read_details(details)
        )

    async def _keep(self, wanted: list[_Wanted]) -> list[dict[int, Answer]]:
        # The first of equal keys: PostgreSQL takes a row once in a statement.
        rows = {row.key: row for one in reversed(wanted) for row in one.rows}
        texts = {digest: text for one in wanted for digest, text in one.texts.items()}
        # In one order, as two runners that store the same texts would otherwise wait for each other.
        new = [(digest, packed(texts[digest])) for digest in sorted(texts.keys() - self._known)]
        ordered = sorted(rows.values())
        columns = [list(column) for column in zip(*ordered, strict=True)]
        given = ([digest for digest, _ in new], [body for _, body in new], *columns)

        async def store(connection: Connection) -> set[bytes]:
            async with connection.cursor(binary=True) as cursor:
                await cursor.execute(_KEEP, given)
                return {key for (key,) in await cursor.fetchall()}

        stored = await self._writing.do(store)
        self._remember(digest for digest, _ in new)
        self._count(Traffic(1, len(rows), sum(len(body) for _, body in new), 0))
        times = Counter(row.key for one in wanted for row in one.rows)
        others = [key for key, number in times.items() if number > 1 or key not in stored]
        earlier = await self._look_up(others) if others else {}
        return [
            {
                row.sample: earlier.get(row.key, answer)
                for row, answer in zip(one.rows, one.answers, strict=True)
            }
            for one in wanted
        ]

    def _remember(self, digests: Iterator[bytes]) -> None:
        if len(self._known) > _MAX_KNOWN:
            self._known.clear()
        self._known.update(digests)

    def _count(self, traffic: Traffic) -> None:
        count(self._address.urls[0], traffic)


def _wanted(answered: Sequence[tuple[Question, Answer]], role: str, case_id: str) -> _Wanted:
    texts: dict[bytes, str] = {}

    def digest(text: str) -> bytes:
        found = text_digest(text)
        texts[found] = text
        return found

    first = answered[0][0]
    model, role_, parameters = map(digest, (first.model, role, json.dumps(first.parameters, sort_keys=True)))
    prompt = b"".join(digest(text) for message in first.messages for text in (message.role, message.text))
    rows = []
    for question, answer in answered:
        details = reply_details(answer)
        read = (answer.text, answer.finish_reason, answer.server, details)
        row = StoredCall(
            key=bytes.fromhex(question.key),
            case_id=case_id.encode(errors="replace"),
            sample=question.sample,
            model=model,
            role=role_,
            parameters=parameters,
            reply=digest(answer.text),
            finish_reason=digest(answer.finish_reason),
            server=digest(answer.server),
            logprobs=digest(details),
            prompt=prompt,
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
            cached_tokens=answer.cached_tokens,
            seconds=float(answer.seconds),
            retries=answer.retries,
        )
        rows.append(row._replace(crc=_checksum(row, read)))
    return _Wanted(rows, [answer for _, answer in answered], texts)


def _checksum(call: StoredCall, texts: Sequence[str]) -> int:
    """CRC-32 of a row, without `crc` and `rejected`, and of the texts that a replay takes."""
    return zlib.crc32(repr((*call[:-2], *map(text_sum, texts))).encode())


def check_call(address: StoreAddress, call: StoredCall, texts: Sequence[str]) -> None:
    """Hold a row and the texts of `READ_TEXTS` against its checksum.

    Raises:
        JournalDamaged: They are not what was stored.
    """
    if call.crc != _checksum(call, texts):
        case_id = call.case_id.decode(errors="replace")
        raise JournalDamaged(
            f"store {address.name}: the reply to a call of case {case_id!r} is not what was stored: its"
            " checksum does not match"
        )


def digests(joined: bytes) -> Iterator[bytes]:
    """The hashes in a column `prompt`."""
    return (joined[start : start + _DIGEST] for start in range(0, len(joined), _DIGEST))


def packed(text: str) -> bytes:
    """A text as it is stored: deflated where that makes it shorter."""
    body = pack(text)
    return _DEFLATED + body if isinstance(body, bytes) else _AS_IT_IS + body.encode()


def as_in_sqlite(body: bytes) -> str | bytes:
    """A stored text as `calls.sqlite` has it."""
    return body[1:] if body[:1] == _DEFLATED else body[1:].decode()


def unpacked(body: bytes) -> str:
    """A stored text as it was.

    Raises:
        ValueError: It is damaged.
    """
    try:
        return unpack(as_in_sqlite(body))
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise ValueError("a text is malformed") from error


async def every_text(connection: Connection) -> AsyncIterator[list[tuple[bytes, bytes]]]:
    """Hash and body of every text in the order of the hashes, some at a time, in the caller's transaction."""
    async with connection.cursor("every_text", binary=True) as cursor:
        await cursor.execute("SELECT hash, body FROM texts ORDER BY hash")
        while rows := await cursor.fetchmany(_FETCHED):
            yield rows


async def every_call(connection: Connection) -> AsyncIterator[list[StoredCall]]:
    """Every call in the order of the keys, some at a time, in the caller's transaction."""
    async with connection.cursor("every_call", binary=True) as cursor:
        await cursor.execute(f"SELECT {COLUMNS} FROM calls ORDER BY key")  # noqa: S608
        while rows := await cursor.fetchmany(_FETCHED):
            yield [StoredCall(*row) for row in rows]
