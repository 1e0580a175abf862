"""Rows as lines of JSON, on their way out and back, with no more than one of them in memory."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, TypeVar

from serving.backends.http_json import MAX_REPLY_BYTES
from serving.protocol.batch_provider import BatchLimits, RemoteBatch, RowResult
from serving.protocol.errors import CallError, classify
from serving.protocol.messages import Answer
from serving.protocol.request import AnyRequest

T = TypeVar("T")

MAX_LINES = 1_000_000
"""Several times the largest batch; a broken server might send lines without end."""


_CHUNK = 2**18


def demand_samples(request: AnyRequest, most: int) -> None:
    """Refuse a row for more samples than one request can bring.

    Raises:
        CallError: It asks for more.
    """
    if len(request.samples) > most:
        raise CallError("internal", f"a row asks for {len(request.samples)} samples, and {most} is the most")


def row_result(custom_id: str, endpoint: str, read: Callable[[], list[Answer]]) -> RowResult:
    """Result of a row; a malformed row fails only itself."""
    try:
        return RowResult(custom_id, tuple(read()))
    except Exception as error:
        return RowResult(custom_id, failure=classify(error).at(endpoint))


def refusing_others(read: Callable[[T], RemoteBatch]) -> Callable[[T], RemoteBatch]:
    """Have a reader of batches refuse what is none: clients pass on anything a server sends."""

    def checked(batch: T) -> RemoteBatch:
        try:
            return read(batch)
        except (AttributeError, TypeError, ValueError, OverflowError, OSError):
            raise CallError("connection", "the server's reply is not a batch") from None

    return checked


async def listed(
    batches: AsyncIterable[T], read: Callable[[T], RemoteBatch], endpoint: str
) -> AsyncIterator[RemoteBatch]:
    """The batches of an account, page by page.

    Raises:
        CallError: One comes again, as from a server whose pages never end.
    """
    seen: set[str] = set()
    async for batch in batches:
        one = read(batch)
        if one.id in seen:
            raise CallError("connection", f"{endpoint} lists batch {one.id!r} again and again")
        seen.add(one.id)
        yield one


def json_of(value: Mapping[str, Any]) -> bytes:
    """JSON on one line. Half surrogate pairs cannot be sent and become question marks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def line_of(value: Mapping[str, Any]) -> bytes:
    """One line, with its end."""
    return json_of(value) + b"\n"


@contextmanager
def file_of(lines: Iterable[bytes], limits: BatchLimits) -> Iterator[IO[bytes]]:
    """A file with these lines, read from its beginning. It has no name, and is gone once it is closed.

    Raises:
        CallError: They are more than one batch may hold; nothing has been sent.
    """
    with tempfile.TemporaryFile() as file:
        for count, line in enumerate(lines, start=1):
            file.write(line)
            if count > limits.requests or file.tell() > limits.bytes:
                raise CallError(
                    "internal",
                    f"a batch holds at most {limits.requests:,} requests and {limits.bytes:,} bytes",
                )
        file.seek(0)
        yield file


async def chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    """A file, part by part."""
    while part := file.read(_CHUNK):
        yield part


async def parsed(parts: AsyncIterator[bytes], what: str) -> AsyncIterator[dict[str, Any]]:
    """The objects of a file of JSON lines, as it comes in.

    Lines end where a line feed is, and nowhere else: replies hold other line separators.

    Raises:
        CallError: A line or the file is too large; or, at the end, a line was no object.
    """
    number, wrong = 0, 0
    async for line in _lines(parts, what):
        number += 1
        if number > MAX_LINES:
            raise CallError("internal", f"{what} has more than {MAX_LINES:,} lines")
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            yield value
        else:
            wrong = wrong or number
    if wrong:
        raise CallError("connection", f"line {wrong} of {what} is not a JSON object")


async def _lines(parts: AsyncIterator[bytes], what: str) -> AsyncIterator[bytearray]:
    rest = bytearray()
    async for part in parts:
        *ended, begun = part.split(b"\n")
        for end in ended:
            rest += end
            yield _bounded(rest, what)
            rest = bytearray()
        rest += begun
        _bounded(rest, what)
    if rest:
        yield rest


def _bounded(line: bytearray, what: str) -> bytearray:
    if len(line) > MAX_REPLY_BYTES:
        raise CallError("internal", f"a line of {what} is larger than {MAX_REPLY_BYTES // 2**20} MB")
    return line
