"""Files are opened, unpacked and replaced here, so that every fault of the disk names its file."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import hashlib
import json
import os
import resource
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from storage.copies import fetch
from storage.errors import InputError
from storage.private import replacing


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open `path` for reading bytes.

    Raises:
        InputError: the file is missing, is a folder or cannot be read.
    """
    fetch(path)
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror or error}") from error


def write_atomically(path: Path, chunks: Iterable[bytes]) -> None:
    """Write `chunks` to `path`, which holds either its old content or all of the new one, whatever happens.

    Raises:
        InputError: the folder is missing or the file cannot be written.
    """
    try:
        with replacing(path) as file:
            file.writelines(chunks)
    except OSError as error:
        raise InputError(path, f"cannot be written: {error.strerror or error}") from error


def write_all(file: IO[bytes], content: bytes) -> None:
    """Write to an unbuffered file, which takes a part of it where the disk gets full.

    Raises:
        OSError: Not all of it could be written.
    """
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def allow_files(number: int) -> None:
    """Have so many files and connections open at once, as far as the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < number:
        wanted = number if hard == resource.RLIM_INFINITY else min(number, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def json_bytes(value: object, indent: int | None = None) -> bytes:
    """Encode `value` as JSON in UTF-8; a lone surrogate, which UTF-8 cannot hold, becomes a question mark."""
    return json.dumps(value, ensure_ascii=False, indent=indent).encode("utf-8", "replace") + b"\n"


def file_sha256(path: Path) -> str:
    """SHA-256 of the content of a file.

    Raises:
        InputError: The file cannot be read.
    """
    digest = hashlib.sha256()
    with opened(path) as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def end_of_whole_lines(file: IO[bytes]) -> int:
    """Byte offset of the end of the last whole line; a kill may have torn the next one."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - 65536)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


_PIECE = 1 << 20
MAX_LINE_BYTES = 1 << 24
"""Bytes of a line or record; a longer one is none that anybody wrote on purpose.

As JSON, a record of only brackets takes 25 times its length in memory.
"""

MAX_RATIO = 250
"""Times its own size that a packed file may unpack to; deflate reaches 1,032, and documents 3 to 20."""
_UNJUDGED = 1 << 24
"""Unpacked bytes up to which no ratio counts."""


class DamagedFile(Exception):
    """The rest of a packed file cannot be unpacked; everything before it has been handed out."""


@dataclass(slots=True)
class Meter:
    """Read position of a file, in its own bytes, compressed or not."""

    bytes: int = 0


def pieces(path: Path, meter: Meter, packed: bool | None = None) -> Iterator[bytes]:
    """The unpacked content of `path`, about a megabyte at a time.

    Raises:
        InputError: The file cannot be opened.
        DamagedFile: It is cut off or broken, or unpacks to `MAX_RATIO` times its size.
    """
    with opened(path) as file:
        if not (path.suffix.lower() == ".gz" if packed is None else packed):
            yield from _read(file.read, file, meter)
            return
        try:
            with closing(gzip.GzipFile(fileobj=file, mode="rb")) as unpacked:
                total = 0
                # read() would wait for a whole piece, and lose its data when damage follows.
                for piece in _read(unpacked.read1, file, meter):
                    total += len(piece)
                    if total > _UNJUDGED and total > MAX_RATIO * meter.bytes:
                        raise DamagedFile(f"it unpacks to more than {MAX_RATIO} times its size")
                    yield piece
        except EOFError as error:
            raise DamagedFile("the file is cut off") from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise DamagedFile(f"cannot be unpacked: {error}") from error


def _read(read: Callable[[int], bytes], file: IO[bytes], meter: Meter) -> Iterator[bytes]:
    while piece := read(_PIECE):
        meter.bytes = file.tell()
        yield piece
    meter.bytes = file.tell()


def lines(path: Path, meter: Meter, packed: bool | None = None) -> Iterator[bytes]:
    """The lines of `path` without their ends and a byte order mark at the start.

    A longer one is cut one byte above `MAX_LINE_BYTES`.

    Raises:
        InputError: The file cannot be opened.
        DamagedFile: It is cut off or broken; the line that is torn by it is not handed out.
    """
    begun: list[bytes] = []
    length = 0
    for number, piece in enumerate(pieces(path, meter, packed)):
        first, *others = (piece if number else piece.removeprefix(codecs.BOM_UTF8)).split(b"\n")
        if length <= MAX_LINE_BYTES:
            begun.append(first)
            length += len(first)
        if others:
            for line in (b"".join(begun), *others[:-1]):
                yield line[: MAX_LINE_BYTES + 1]
            begun, length = [others[-1]], len(others[-1])
    if length:
        yield b"".join(begun)[: MAX_LINE_BYTES + 1]


def whole(path: Path, limit: int) -> bytes:
    """The content of a file that has to be read as a whole.

    Raises:
        InputError: It cannot be read, or is longer than `limit` bytes.
    """
    with opened(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise InputError(
            path, f"is longer than {limit >> 20} MB", "Split it, or give the file that was meant"
        )
    return content
