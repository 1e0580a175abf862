"""Append-only files of JSON lines about cases next to a run, shared by several processes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from cases.formats.json_border import Identifier, first_fault
from runs.record.manifest import RunError
from storage.files import end_of_whole_lines, write_all
from storage.locks import FileLock, LockedError
from storage.private import open_here
from storage.unique_keys import RepeatedKey, unique


class OfCase(BaseModel):
    """A line about a case."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    case_id: Identifier


Record = TypeVar("Record", bound=OfCase)

_WAIT_S = 10.0
"""For another process, which has a few lines to write."""


class AddedLines(Generic[Record]):
    """Any process may read and add; each reads what others have added."""

    def __init__(self, path: Path, kind: type[Record]) -> None:
        self.path = path
        self._kind = kind
        self._read = 0
        self._lines = 0
        self._by_case: dict[str, list[Record]] = {}

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
            # A separate file, as other ways of locking leave files next to it.
            lock = FileLock(self.path.with_name(f".{self.path.name}.lock"), wait_s=_WAIT_S)
            with lock, open_here(self.path, "a+b") as file:
                end = end_of_whole_lines(file)
                # What follows the last whole line was left by a writer that was killed.
                file.truncate(end)
                try:
                    write_all(file, content)
                    os.fsync(file.fileno())
                except OSError:
                    file.truncate(end)
                    raise
        except LockedError as error:
            raise RunError(f"{self.path}: {error}") from None
        except OSError as error:
            raise RunError(f"{self.path}: cannot be written: {error.strerror or error}") from error

    def refresh(self) -> None:
        """Read newly added lines.

        Raises:
            RunError: The file holds something else.
        """
        size = self.path.stat().st_size if self.path.exists() else 0
        if size == self._read:
            return
        if size < self._read:
            # It was written anew.
            self._read = self._lines = 0
            self._by_case = {}
        with self.path.open("rb") as file:
            file.seek(self._read)
            for content in file:
                if not content.endswith(b"\n"):
                    # Torn, or still being written.
                    break
                self._lines += 1
                record = self._parsed(content)
                self._by_case.setdefault(record.case_id, []).append(record)
                self._read += len(content)

    def history(self, case_id: str) -> list[Record]:
        """All lines about a case, oldest first.

        Raises:
            RunError: The file holds something else.
        """
        self.refresh()
        return list(self._by_case.get(case_id, ()))

    def histories(self) -> dict[str, list[Record]]:
        """All lines by case, oldest first.

        Raises:
            RunError: The file holds something else.
        """
        self.refresh()
        return {case_id: list(records) for case_id, records in self._by_case.items()}

    def _parsed(self, content: bytes) -> Record:
        try:
            record = self._kind.model_validate_json(content)
            json.loads(content, object_pairs_hook=unique)
        except RepeatedKey as error:
            raise RunError(f"{self.path}: line {self._lines}: {error}") from None
        except ValidationError as error:
            raise RunError(f"{self.path}: line {self._lines}: {first_fault(error)}") from None
        return record
