"""Runs for programs: everything that a run folder holds, by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from runs.record.folder import CALLS, RunFolder
from runs.record.index import Report, RunIndex
from runs.record.manifest import Manifest
from runs.record.trace_file import Line
from serving.journal.journal import Journal
from serving.protocol.messages import Message


class Run(RunIndex):
    """A run folder, opened for reading; the run may still be going on. Use it from one thread at a time."""

    def __init__(self, path: Path, report: Report = lambda _: None) -> None:
        """Open a run; `report` is called with a line about the first reading of a large one.

        Raises:
            RunError: No run, or one of another version, or damaged.
        """
        super().__init__(RunFolder(path))
        self._journal: Journal | None = None
        self._file: int | None = None
        super().refresh(report)

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def manifest(self) -> Manifest:
        """`run.json` as it was when the run was opened or last refreshed."""
        return self.folder.manifest

    def refresh(self, report: Report = lambda _: None) -> bool:
        self.folder.manifest = self.folder.read_manifest()
        return super().refresh(report)

    def lines(self) -> Iterator[Line]:
        """The line of each case that has ended, streamed in the order of the file."""
        return self.folder.cases()

    def conversation(self, key: str) -> list[Message]:
        """Prompt and reply of a call by its key in the trace.

        Raises:
            KeyError: The journal has no such call, as after a retry that asked anew.
            JournalError: The journal cannot be read.
        """
        return self._opened_journal().conversation(key)

    def demand_journal(self) -> None:
        """Make sure that prompts and replies can be read, if there are any.

        Raises:
            JournalError: They cannot.
        """
        if (self.path / CALLS).exists():
            self._opened_journal()

    def _opened_journal(self) -> Journal:
        path = self.path / CALLS
        # A run that is written elsewhere gets another file whenever it is published.
        file = path.stat().st_ino if path.exists() else None
        if self._journal is not None and file != self._file:
            self._journal.close()
            self._journal = None
        if self._journal is None:
            self._journal, self._file = Journal(path, read_only=True), file
        return self._journal

    def close(self) -> None:
        super().close()
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open(path: Path | str) -> Run:
    """Open a run folder for reading.

    Raises:
        RunError: No run, or one of another version, or damaged.
    """
    return Run(Path(path))
