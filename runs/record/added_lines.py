"""A file of JSON lines beside a run that several processes add to; lines are only ever added."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from cases.formats.json_border import first_fault
from runs.record.manifest import RunError
from storage.files import end_of_whole_lines
from storage.locks import FileLock, LockedError
from storage.private import open_here
from storage.unique_keys import RepeatedKey, unique

Record = TypeVar("Record", bound=BaseModel)

_WAIT_S = 10.0
"""For another process, which has a few lines to write."""


class AddedLines(ABC, Generic[Record]):
    """Any process may read and add; each reads what others have added."""

    def __init__(self, path: Path, kind: type[Record]) -> None:
        self.path = path
        self._kind = kind
        self._read = 0
        self._lines = 0

    @abstractmethod
    def _take(self, record: Record) -> None:
        """Remember a line that was read."""

    @abstractmethod
    def _forget(self) -> None:
        """Start over: the file has become shorter."""

    @property
    def version(self) -> int:
        return self._read

    def add(self, *records: Record) -> None:
        """Add lines for good: they are flushed to the disk when this returns.

        Raises:
            RunError: They cannot be written.
        """
        content = b"".join(record.model_dump_json().encode() + b"\n" for record in records)
        try:
            with self._lock(), open_here(self.path, "a+b") as file:
                end = end_of_whole_lines(file)
                # What follows the last whole line was left by a writer that was killed.
                file.truncate(end)
                try:
                    rest = memoryview(content)
                    while rest:
                        rest = rest[file.write(rest) :]
                    os.fsync(file.fileno())
                except OSError:
                    file.truncate(end)
                    raise
        except LockedError as error:
            raise RunError(f"{self.path}: {error}") from None
        except OSError as error:
            raise RunError(f"{self.path}: cannot be written: {error.strerror or error}") from error

    def refresh(self) -> None:
        """Take in what was added since.

        Raises:
            RunError: The file holds something else.
        """
        size = self._size()
        if size == self._read:
            return
        if size < self._read:
            self._read = self._lines = 0
            self._forget()
        with self.path.open("rb") as file:
            file.seek(self._read)
            for content in file:
                if not content.endswith(b"\n"):
                    # Torn, or still being written.
                    break
                self._lines += 1
                self._take(self._parsed(content))
                self._read += len(content)

    def _lock(self) -> FileLock:
        # A file of its own: the other ways of locking leave files beside it.
        return FileLock(self.path.with_name(f".{self.path.name}.lock"), wait_s=_WAIT_S)

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def _parsed(self, content: bytes) -> Record:
        try:
            record = self._kind.model_validate_json(content)
            json.loads(content, object_pairs_hook=unique)
        except RepeatedKey as error:
            raise RunError(f"{self.path}: line {self._lines}: {error}") from None
        except ValidationError as error:
            raise RunError(f"{self.path}: line {self._lines}: {first_fault(error)}") from None
        return record
