"""Files are opened, unpacked and replaced here, so that every fault of the disk names its file."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from cases.errors import InputError


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open `path` for reading bytes.

    Raises:
        InputError: the file is missing, is a folder or cannot be read.
    """
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
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.writelines(chunks)
        temporary.replace(path)
    except OSError as error:
        raise InputError(path, f"cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


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
    """Where the last whole line of an open file ends, in bytes; a kill may have torn the one after it."""
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
MAX_LINE_BYTES = 1 << 26
"""Bytes of a line or record; a longer one is none that anybody wrote on purpose."""


class DamagedFile(Exception):
    """The rest of a packed file cannot be unpacked; everything before it has been handed out."""


@dataclass(slots=True)
class Meter:
    """How far a file has been read, in its own bytes, packed or not."""

    bytes: int = 0


def pieces(path: Path, meter: Meter) -> Iterator[bytes]:
    """The unpacked content of `path`, about a megabyte at a time.

    Raises:
        InputError: The file cannot be opened.
        DamagedFile: It is cut off or broken.
    """
    with opened(path) as file:
        if path.suffix.lower() != ".gz":
            yield from _read(file.read, file, meter)
            return
        try:
            with closing(gzip.GzipFile(fileobj=file, mode="rb")) as unpacked:
                # read() would wait for a whole piece, and lose what it has when damage follows.
                yield from _read(unpacked.read1, file, meter)
        except EOFError as error:
            raise DamagedFile("the file is cut off") from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise DamagedFile(f"cannot be unpacked: {error}") from error


def _read(read: Callable[[int], bytes], file: IO[bytes], meter: Meter) -> Iterator[bytes]:
    while piece := read(_PIECE):
        meter.bytes = file.tell()
        yield piece
    meter.bytes = file.tell()


def lines(path: Path, meter: Meter) -> Iterator[bytes]:
    """The lines of `path` without their ends; a longer one is cut one byte above `MAX_LINE_BYTES`.

    Raises:
        InputError: The file cannot be opened.
        DamagedFile: It is cut off or broken; the line that is torn by it is not handed out.
    """
    rest = b""
    for piece in pieces(path, meter):
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
        rest = rest[: MAX_LINE_BYTES + 1]
    if rest:
        yield rest
