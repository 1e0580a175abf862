"""Files are opened and replaced here, so that every fault of the disk names its file."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator
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
