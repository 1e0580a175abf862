"""A run folder as the server holds it: opened when it is asked for, read by one thread at a time."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from runs.case_summary import CaseSummary
from runs.folder import CASES, MANIFEST
from runs.index import Report, Totals
from runs.manifest import Manifest, RunError
from runs.reading import Run
from runs.reviews import Reviews
from viewer.review_states import ReviewReader, ReviewStates

_FRESH_FOR = 1.0
"""Seconds within which a run is not looked at again: several readers ask for one page."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The cases of a run that have ended.

    Attributes:
        revision: Of the run's index.
        summaries: In input order.
        read_at: The revision with which a case was read last, at least that of its line.
        reviews: Which of them wait for a person or were reviewed.
    """

    manifest: Manifest
    revision: int
    summaries: tuple[CaseSummary, ...]
    read_at: Mapping[str, int]
    reviews: ReviewStates = field(default_factory=ReviewStates)

    def since(self, revision: int) -> tuple[CaseSummary, ...]:
        """Cases that were read after a revision."""
        return tuple(row for row in self.summaries if self.read_at[row.case_id] > revision)


class OpenedRun:
    """One run. Every method may be called from any thread."""

    def __init__(self, path: Path, report: Report, kind: type[Run] = Run) -> None:
        """Nothing is read before it is asked for.

        Args:
            path: The run folder.
            report: Told in a line of what takes long.
            kind: How it is read: whole, or without texts.
        """
        self.path = path
        self._kind = kind
        self._report = report
        self._lock = threading.Lock()
        self._run: Run | None = None
        self._looked = 0.0
        self._ended: Ended | None = None
        self._totals: tuple[object, Manifest, Totals] | None = None
        self._reviews = ReviewReader(path)

    @contextmanager
    def reading(self) -> Iterator[Run]:
        """The run, for one thread at a time, with what it has written until now.

        Raises:
            RunError: It cannot be read.
        """
        with self._lock:
            yield self._fresh()

    @contextmanager
    def reviewing(self, *, now: bool = False) -> Iterator[tuple[Run, Reviews]]:
        """The run and its reviews, as `reading`.

        Args:
            now: Whether a look of a moment ago is too old.

        Raises:
            RunError: It cannot be read.
        """
        with self._lock:
            if now:
                self._looked = 0.0
            yield self._fresh(), self._reviews.reviews

    def ended(self) -> Ended:
        """All rows; between two looks at the folder, only new ones are read.

        Raises:
            RunError: It cannot be read.
        """
        with self._lock:
            run = self._fresh()
            known, revision = self._ended, run.revision
            if known is None or known.revision > revision:
                rows = tuple(run.summaries())
                self._ended = Ended(run.manifest, revision, rows, {row.case_id: revision for row in rows})
            elif known.revision < revision:
                fresh = {row.case_id: row for row in run.summaries(known.revision)}
                merged = {row.case_id: row for row in known.summaries} | fresh
                rows = tuple(sorted(merged.values(), key=lambda row: row.position))
                read_at = {**known.read_at, **dict.fromkeys(fresh, revision)}
                self._ended = Ended(run.manifest, revision, rows, read_at)
            else:
                self._ended = known
            ended = self._ended
            reviews = self._reviews.states(run, ended.summaries, ended.read_at)
            self._ended = replace(ended, manifest=run.manifest, reviews=reviews)
            return self._ended

    def totals(self) -> tuple[Manifest, Totals]:
        """Sums over the run, as they were when its files last changed.

        Raises:
            RunError: It cannot be read.
        """
        stamp = [_stamp(self.path / name) for name in (MANIFEST, CASES)]
        with self._lock:
            if self._totals is None or self._totals[0] != stamp:
                # A second later these files may be as they are now, so what they say now must be read.
                self._looked = 0.0
                run = self._fresh()
                self._totals = stamp, run.manifest, run.totals()
            return self._totals[1:]

    def release(self) -> None:
        """Give memory and files back until the run is asked for again; not while somebody reads it."""
        if self._lock.acquire(blocking=False):
            try:
                self._close()
            finally:
                self._lock.release()

    def _close(self) -> None:
        if self._run is not None:
            self._run.close()
        self._run = self._ended = None
        self._reviews = ReviewReader(self.path)

    def _fresh(self) -> Run:
        try:
            if self._run is None:
                self._run = self._kind(self.path, self._report)
            elif time.monotonic() - self._looked > _FRESH_FOR:
                self._run.refresh()
        except (OSError, sqlite3.Error, ValueError, KeyError, TypeError) as error:
            self._close()
            raise RunError(f"{self.path}: cannot be read: {error}") from error
        self._looked = time.monotonic()
        return self._run


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
