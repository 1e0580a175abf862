"""Files that may be packed with gzip, read in pieces: what stands before damage is not lost."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cases.files import opened

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
