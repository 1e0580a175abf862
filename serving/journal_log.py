"""SQLite's write-ahead log, read by itself: SQLite passes over all that follows the first damaged frame.

The format is that of https://sqlite.org/fileformat2.html#the_write_ahead_log.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_HEAD = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_BIG_ENDIAN, _LITTLE_ENDIAN = 0x377F0683, 0x377F0682
_VERSION = 3_007_000
_SEALED_HEAD = 24
_SEALED_FRAME = 8
"""Bytes at the beginning of either header that its checksum covers."""
MODES = slice(18, 20)
WITH_LOG, _WITHOUT_LOG = b"\x02\x02", b"\x01\x01"
"""Which bytes of a database say whether it has a log, and what they say."""
_USUAL_PAGE = 4096
_FULL_FRAME = _HEAD.size + _FRAME.size + _USUAL_PAGE

Sum = tuple[int, int]


class Frame(NamedTuple):
    """A page as a transaction left it; `commit` is the size of the database in pages at its end, else 0."""

    start: int
    page: int
    commit: int
    content: bytes
    whole: bool


@dataclass(frozen=True, slots=True)
class Log:
    """What a write-ahead log holds.

    Attributes:
        fault: Why SQLite reads nothing of it; empty where it does.
        frames: Of the log's present round, in order; those of earlier rounds may follow in the file.
        damaged_at: Byte of the first damaged frame that whole ones follow, None where there is none.
    """

    fault: str
    page_size: int
    frames: list[Frame]
    damaged_at: int | None


def read_log(path: Path) -> Log:
    """Read a write-ahead log; one that is missing or empty has no frames.

    A last frame that is cut off or wrong may have been left by a kill, and is no damage by itself.

    Raises:
        OSError: It cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        content = b""
    if not content:
        return Log("", 0, [], None)
    if len(content) < _HEAD.size:
        return Log("it is shorter than its header", 0, [], None)
    magic, version, page_size, _, *salts, one, other = _HEAD.unpack_from(content)
    order = {_BIG_ENDIAN: ">", _LITTLE_ENDIAN: "<"}.get(magic)
    fault = ""
    if order is None or version != _VERSION or _summed(content[:_SEALED_HEAD], (0, 0), order) != (one, other):
        # The frames can be read all the same: each carries what the header says of it.
        fault, order, page_size = "its header is damaged", order or "<", _USUAL_PAGE
        salts = list(_FRAME.unpack_from(content, _HEAD.size)[2:4]) if len(content) > _FULL_FRAME else salts
    frames = list(_frames(content, page_size, (salts[0], salts[1]), (one, other), order))
    last = max((number for number, frame in enumerate(frames) if frame.whole), default=-1)
    damaged = next((frame.start for frame in frames[: last + 1] if not frame.whole), None)
    return Log(fault, page_size, frames[: last + 1], damaged)


def rewritten(log: Log) -> bytes:
    """The log without its damaged frames, so that SQLite reads all of the others."""
    salts = (1, 2)
    head = struct.pack(">6I", _LITTLE_ENDIAN, _VERSION, log.page_size, 0, *salts)
    before = _summed(head, (0, 0), "<")
    pieces = [head, struct.pack(">2I", *before)]
    for frame in log.frames:
        if frame.whole:
            beginning = struct.pack(">2I", frame.page, frame.commit)
            before = _summed(frame.content, _summed(beginning, before, "<"), "<")
            pieces += [beginning, struct.pack(">4I", *salts, *before), frame.content]
    return b"".join(pieces)


def folded_in(journal: Path, log_path: Path) -> bytes:
    """The bytes of a journal with what its log commits, for readers in whose folder SQLite can make no file.

    Raises:
        OSError: A file cannot be read.
    """
    while True:
        before = _beginning(log_path)
        log, content = read_log(log_path), bytearray(journal.read_bytes())
        # A writer may just have folded it in and begun it anew.
        if _beginning(log_path) == before:
            break
    pages: dict[int, bytes] = {}
    for frame in log.frames if not log.fault else ():
        if not frame.whole:
            break
        pages[frame.page] = frame.content
        if frame.commit:
            content.extend(bytes(max(0, frame.commit * log.page_size - len(content))))
            for number, page in pages.items():
                content[(number - 1) * log.page_size : number * log.page_size] = page
            del content[frame.commit * log.page_size :]
            pages.clear()
    # In memory there is no log.
    content[MODES] = _WITHOUT_LOG
    return bytes(content)


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD.size)
    except FileNotFoundError:
        return b""


def _frames(content: bytes, page_size: int, salts: Sum, before: Sum, order: str) -> Iterator[Frame]:
    """Each is checked against the checksum that the one before it claims, so damage does not spread."""
    size = _FRAME.size + page_size
    for start in range(_HEAD.size, len(content) - size + 1, size):
        page, commit, *own, one, other = _FRAME.unpack_from(content, start)
        body = content[start + _FRAME.size : start + size]
        found = _summed(body, _summed(content[start : start + _SEALED_FRAME], before, order), order)
        whole = (own[0], own[1]) == salts and found == (one, other)
        yield Frame(start, page, commit, body, whole)
        before = (one, other)


def _summed(content: bytes, before: Sum, order: str) -> Sum:
    one, other = before
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for index in range(0, len(words), 2):
        one = (one + words[index] + other) & 0xFFFFFFFF
        other = (other + words[index + 1] + one) & 0xFFFFFFFF
    return one, other
