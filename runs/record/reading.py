"""Runs for programs: everything that a run folder holds, by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cases.records import Case
from runs.record.case_summary import CaseSummary
from runs.record.folder import CALLS, RunFolder
from runs.record.index import Report, RunIndex, Totals
from runs.record.manifest import Manifest
from runs.record.trace_file import Line
from serving.journal.journal import Journal
from serving.protocol.messages import Message


class Run:
    """A run folder, opened for reading; the run may still be going on. Use it from one thread at a time."""

    def __init__(self, path: Path, report: Report = lambda _: None) -> None:
        """Open a run.

        Raises:
            RunError: No run, or one of another version, or damaged.
        """
        self.folder = RunFolder(path)
        self._index = RunIndex(self.folder)
        self._journal: Journal | None = None
        self._file: int | None = None
        self._index.refresh(report)

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def manifest(self) -> Manifest:
        """`run.json` as it was when the run was opened or last refreshed."""
        return self.folder.manifest

    def refresh(self) -> bool:
        """Take in what the run has written since; whether anything was new."""
        self.folder.manifest = self.folder.read_manifest()
        return self._index.refresh()

    @property
    def revision(self) -> int:
        """Grows with each refresh that found ended cases."""
        return self._index.revision

    def summaries(self, after: int = 0) -> Iterator[CaseSummary]:
        """A row for each case that has ended, in input order.

        What revision `after` had already is left out.
        """
        return self._index.summaries(after)

    def totals(self) -> Totals:
        """Sums over the cases that have ended."""
        return self._index.totals()

    def counts(self) -> dict[str, tuple[int, int, int]]:
        """Right, given and wanted of each case that is scored, as `totals` sums them."""
        return self._index.counts()

    def neighbours(self, case_id: str) -> tuple[str | None, str | None]:
        """The cases before and after it in input order, of those that have ended; None at either end."""
        return self._index.neighbours(case_id)

    def lines(self) -> Iterator[Line]:
        """The line of each case that has ended, streamed in the order of the file."""
        return self.folder.cases()

    def has_ended(self, case_id: str) -> bool:
        """Whether the case has a line; at once, unlike the search for the nearest name that `line` makes."""
        return self._index.has_ended(case_id)

    def line(self, case_id: str) -> Line:
        """How a case ended: its line of `cases.jsonl`.

        Raises:
            RunError: It has not ended in this run; names the nearest case.
        """
        return self._index.line(case_id) or self.folder.require_case(case_id)

    def trace(self, case_id: str) -> list[Line]:
        """The node executions of a case's last pass, in the order of their start."""
        return self._index.trace(case_id)

    def case(self, case_id: str) -> Case | None:
        """Texts and key of a case; None where the case files are gone or changed (see `texts_fault`)."""
        return self._index.case(case_id)

    @property
    def texts_fault(self) -> str | None:
        """Why there are no texts, in words; None where they are there."""
        return self._index.texts_fault

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
        self._index.close()
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
