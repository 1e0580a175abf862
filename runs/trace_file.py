"""`trace.jsonl.gz`: one gzip member a pass, so that a pass is found, read and cut off by itself.

Every member has its own length in an extra field of its header (RFC 1952, section 2.3.1.1): a reader hops
from member to member without unpacking, and `zcat` reads the whole file all the same.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import orjson

from runs.manifest import RunError

TRACE = "trace.jsonl.gz"

Line = dict[str, Any]

_HEADER = struct.Struct("<4sIBBH2sHI")
_TRAILER = struct.Struct("<II")
_START = b"\x1f\x8b\x08\x04"  # gzip, deflate, with an extra field
_FIELD = b"EG"
_LEVEL = 1
_UNKNOWN_SYSTEM = 255


class Place(NamedTuple):
    """Where a pass is in the file, in bytes."""

    start: int
    end: int


def pack(lines: Sequence[Line]) -> bytes:
    """The lines of a pass as one gzip member."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode(errors="replace")
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(text) + deflate.flush()
    length = _HEADER.size + len(body) + _TRAILER.size
    header = _HEADER.pack(_START, 0, 0, _UNKNOWN_SYSTEM, 8, _FIELD, 4, length)
    return header + body + _TRAILER.pack(zlib.crc32(text), len(text) & 0xFFFFFFFF)


class TraceFile:
    """Reads the passes of a run folder."""

    def __init__(self, folder: Path) -> None:
        """Nothing is opened yet; a run without a trace has no passes."""
        self._path = folder / TRACE

    def places(self, after: Place | None = None) -> Iterator[Place]:
        """Where the passes are, in the order of writing; only whole ones."""
        if not self._path.is_file():
            return
        start = after.end if after is not None else 0
        with self._path.open("rb") as file:
            for end in _member_ends(file, start):
                yield Place(start, end)
                start = end

    def read(self, place: Place) -> list[Line]:
        """The node executions of a pass.

        Raises:
            RunError: The bytes are damaged.
            OSError: The file cannot be read.
        """
        with self._path.open("rb") as file:
            return _unpacked(self._path, file, place)

    def passes(self) -> Iterator[list[Line]]:
        """Every pass, streamed.

        Raises:
            RunError: Bytes in the middle are damaged.
        """
        if not self._path.is_file():
            return
        with self._path.open("rb") as file:
            for place in self.places():
                yield _unpacked(self._path, file, place)


def open_for_append(folder: Path) -> IO[bytes]:
    """Open at the end of the last whole pass; what a kill has torn is cut off.

    Unbuffered, so that a failed write leaves nothing behind.

    Raises:
        RunError: There is more behind the last whole pass than a torn one.
        OSError: The file cannot be opened.
    """
    path = folder / TRACE
    file = path.open("r+b" if path.exists() else "w+b", buffering=0)
    end = max(_member_ends(file, 0), default=0)
    file.seek(end)
    rest = file.read(_HEADER.size)
    if not _is_torn(rest):
        file.close()
        raise RunError(f"{path}: damaged from byte {end:,} on; nothing was written to it")
    file.truncate(end)
    file.seek(end)
    return file


def _member_ends(file: IO[bytes], start: int) -> Iterator[int]:
    size = os.fstat(file.fileno()).st_size
    while start + _HEADER.size <= size:
        file.seek(start)
        magic, _, _, _, _, field, _, length = _HEADER.unpack(file.read(_HEADER.size))
        if magic != _START or field != _FIELD or start + length > size:
            return
        start += length
        yield start


def _is_torn(rest: bytes) -> bool:
    """Whether this may be the beginning of a member, or what a loss of power leaves of one."""
    return rest.startswith(_START[: len(rest)]) or not rest.strip(b"\0")


def _unpacked(path: Path, file: IO[bytes], place: Place) -> list[Line]:
    file.seek(place.start)
    raw = file.read(place.end - place.start)
    try:
        return [orjson.loads(line) for line in zlib.decompress(raw, zlib.MAX_WBITS | 16).splitlines()]
    except (zlib.error, orjson.JSONDecodeError) as error:
        raise RunError(f"{path}: damaged from byte {place.start:,} to {place.end:,}: {error}") from None
