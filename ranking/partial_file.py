"""A file of JSON lines that takes long to make: begun beside its place, gone on with after a kill."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from cases.errors import InputError
from cases.files import end_of_whole_lines, json_bytes, write_atomically

Fields = dict[str, Any]

SUFFIX = ".partial"


class PartialFile:
    """Collects lines in `FILE.partial`, and puts them in the place of `FILE` when all are there.

    A context manager: left early, it keeps what there is. Holds no lines in memory.
    """

    def __init__(self, path: Path, made_by: Fields) -> None:
        """Open the partial file, or begin it.

        Args:
            path: Of the whole file.
            made_by: What shapes its lines; a partial file is only gone on with under the same.

        Raises:
            InputError: Another process is writing it, it was begun under something else, or it cannot be
                written.
        """
        self.path = path
        self.partial = path.with_name(path.name + SUFFIX)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.partial, os.O_RDWR | os.O_CREAT, 0o666)
            self._file: IO[bytes] = os.fdopen(descriptor, "r+b", buffering=0)
        except OSError as error:
            raise InputError(self.partial, f"cannot be written: {error.strerror or error}") from error
        try:
            self._begin(made_by)
        except BaseException:
            self._file.close()
            raise

    def lines(self) -> Iterator[Fields]:
        """Those of earlier processes and of this one, streamed."""
        with self.partial.open("rb") as file:
            next(file)
            for line in file:
                yield json.loads(line)

    def append(self, fields: Fields) -> None:
        """Add a line. After a fault of the disk the file holds only whole lines.

        Raises:
            InputError: It cannot be written.
        """
        end = self._file.tell()
        rest = memoryview(json_bytes(fields))
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            os.ftruncate(self._file.fileno(), end)
            raise InputError(self.partial, f"cannot be written: {error.strerror or error}") from error

    def finish(self, key: str) -> None:
        """Write the whole file: what each line has under `key`.

        Raises:
            InputError: It cannot be written; the partial file stays.
        """
        write_atomically(self.path, (json_bytes(line[key]) for line in self.lines()))
        self.partial.unlink()

    def close(self) -> None:
        """Give the lock back."""
        self._file.close()

    def __enter__(self) -> PartialFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self, made_by: Fields) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(self.partial, "another process is writing it") from None
        end = end_of_whole_lines(self._file)
        self._file.truncate(end)
        if end == 0:
            self._file.seek(0)
            self.append(made_by)
            return
        self._file.seek(0)
        found = _header(self._file.readline())
        if found is None:
            raise InputError(self.partial, "is no begun ranking", "Choose another file, or delete it")
        changed = [name for name in {**made_by, **found} if made_by.get(name) != found.get(name)]
        if changed:
            raise InputError(
                self.partial,
                f"was begun with another {' and '.join(changed)}",
                "Give the same again to go on, or delete it to begin anew",
            )
        self._file.seek(end)


def _header(line: bytes) -> Fields | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
