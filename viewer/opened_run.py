"""A run folder as the server uses it: opened on demand, read by one thread at a time, with review states."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from graph.system import find_system
from nodes.core.recipe import RecipeError
from runs.execute.watcher import Written, read_progress
from runs.record.case_summary import CaseSummary
from runs.record.folder import CASES, MANIFEST, RunFolder
from runs.record.index import Report, Totals
from runs.record.manifest import WAITING, Manifest, RunError
from runs.record.reading import Run
from runs.record.trace_file import Line
from runs.review.reviewers import ReviewedRun, Standing
from runs.review.reviews import Review, is_stale
from storage.errors import InputError

if TYPE_CHECKING:
    from evals.scoring.scored_task import ScoredTask

State = Literal["waiting", "reviewed", "stale"]
_REFRESH_INTERVAL = 1.0
"""Seconds between looks at a run folder: several readers may request one page."""


@dataclass(frozen=True, slots=True)
class ReviewStates:
    """The state of each case that waits or was reviewed, in input order.

    Attributes:
        of: By case id: `waiting` for labels of a person, `reviewed`, or `stale` if an earlier result was
            reviewed.
        version: Changes whenever `of` does.
    """

    of: Mapping[str, State] = field(default_factory=dict)
    version: str = ""

    @property
    def words(self) -> str:
        counts = Counter(self.of.values())
        parts = [f"{counts['waiting']:,} waiting, {counts['reviewed']:,} reviewed"]
        if counts["stale"]:
            parts.append(f"{counts['stale']:,} reviewed on an earlier result")
        return ", ".join(parts) if self.of else "none"


@dataclass(frozen=True, slots=True)
class Ended:
    """The cases of a run that have ended.

    Attributes:
        revision: The revision of the run's index.
        summaries: In input order.
        read_at: Revision at which each case was last read, at least its line's revision.
        reviews: Cases that wait for a review or were reviewed.
        progress: Progress of the run; None if it is not running.
    """

    manifest: Manifest
    revision: int
    summaries: tuple[CaseSummary, ...]
    read_at: Mapping[str, int]
    reviews: ReviewStates = field(default_factory=ReviewStates)
    progress: Written | None = None

    def since(self, revision: int) -> tuple[CaseSummary, ...]:
        """Cases that were read after a revision."""
        return tuple(row for row in self.summaries if self.read_at[row.case_id] > revision)


class OpenedRun:
    """One run. Every method may be called from any thread."""

    def __init__(self, path: Path, report: Report, kind: type[Run] = Run) -> None:
        """Open nothing yet; `kind` is `Run`, or a class that reads it without texts."""
        self.path = path
        self._kind = kind
        self._report = report
        self._lock = threading.Lock()
        self._run: Run | None = None
        self._looked = 0.0
        self._ended: Ended | None = None
        self._totals: tuple[object, Manifest, Totals] | None = None
        self._answers: tuple[object, tuple[ScoredTask, ...]] | None = None
        self._reviews = ReviewReader(path)

    @contextmanager
    def reading(self) -> Iterator[Run]:
        """The current state of the run, locked for this thread.

        Raises:
            RunError: It cannot be read.
        """
        with self._lock:
            yield self._fresh()

    @contextmanager
    def reviewing(self, *, now: bool = False) -> Iterator[tuple[Run, ReviewedRun]]:
        """The run and its reviews, locked for this thread.

        With `now`, the folder is looked at again, however recent the last look.

        Raises:
            RunError: It cannot be read.
        """
        with self._lock:
            if now:
                self._looked = 0.0
            yield self._fresh(), self._reviews.reviews

    def ended(self) -> Ended:
        """Summaries of all ended cases; only new ones are read from the folder.

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
            progress = read_progress(self.path) if run.manifest.status == "running" else None
            self._ended = replace(ended, manifest=run.manifest, reviews=reviews, progress=progress)
            return self._ended

    def totals(self) -> tuple[Manifest, Totals]:
        """Sums over the run, computed again when its files change.

        Raises:
            RunError: It cannot be read.
        """
        stamp = [_stamp(self.path / name) for name in (MANIFEST, CASES)]
        with self._lock:
            if self._totals is None or self._totals[0] != stamp:
                # The stamp is taken before reading, so the content must not be older than the stamp.
                self._looked = 0.0
                run = self._fresh()
                self._totals = stamp, run.manifest, run.totals()
            return self._totals[1:]

    def answers(self) -> tuple[ScoredTask, ...]:
        """Scores of answers to BioASQ's questions, computed again when the run's files change.

        Empty for other runs.

        Raises:
            RunError: It cannot be read.
        """
        stamp = [_stamp(self.path / name) for name in (MANIFEST, CASES)]
        with self._lock:
            if self._answers is None or self._answers[0] != stamp:
                self._answers = stamp, answers_of(self.path)
            return self._answers[1]

    def release(self) -> None:
        """Free memory and close files until the next use; does nothing while the run is being read."""
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
            elif time.monotonic() - self._looked > _REFRESH_INTERVAL:
                self._run.refresh()
        except (OSError, sqlite3.Error, ValueError, KeyError, TypeError) as error:
            self._close()
            raise RunError(f"{self.path}: cannot be read: {error}") from error
        self._looked = time.monotonic()
        return self._run


def answers_of(path: Path) -> tuple[ScoredTask, ...]:
    """Scores of answers to BioASQ's questions; empty for the run of another system.

    Raises:
        RunError: The run cannot be read.
    """
    run = RunFolder(path)
    if find_system(run.manifest.system).score != "biomedical":
        return ()
    # It takes the measures, which no other run needs.
    from evals.bioasq.scores import predictions_of_run, score_parts
    from evals.scoring.gold import gold_of_run, only_cases

    done = [case_id for case_id, status in run.statuses().items() if status == "done"]
    try:
        return tuple(score_parts(only_cases(gold_of_run(run), done), predictions_of_run(run)))
    except (InputError, RecipeError):
        # The recipe or a question file cannot be read any more.
        return ()


def state_of(line: Line, standing: Standing) -> State:
    """The state of a reviewed case."""
    labels, history = standing.counting, standing.history
    if line["status"] == WAITING:
        return "reviewed" if labels is not None and not is_stale(labels, line) else "waiting"
    answer = next((one for one in reversed(history) if one.answer is not None), None)
    labels = labels or next((one for one in reversed(history) if one.labels is not None), None)
    current = [one for one in (labels, answer) if one is not None] or [history[-1]]
    return "stale" if any(is_stale(one, line) for one in current) else "reviewed"


class ReviewReader:
    """The reviews of a run and the states of its cases, which the index does not know. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        self.reviews = ReviewedRun(path)
        self._known: dict[str, tuple[int, Review, tuple[str, ...], State]] = {}
        self._states: tuple[tuple[int, ...], ReviewStates] | None = None

    def states(self, run: Run, summaries: Iterable[CaseSummary], read_at: Mapping[str, int]) -> ReviewStates:
        """Current states; reads only the lines of cases that were reviewed or changed since.

        `summaries` are of all cases of the run, in input order; `read_at` is when each was last read.

        Raises:
            RunError: The file of reviews is damaged.
        """
        revision = run.revision
        version = revision, *self.reviews.version()
        if self._states is not None and self._states[0] == version:
            return self._states[1]
        standings = self.reviews.standings()
        found: dict[str, State] = {}
        for row in summaries:
            id_ = row.case_id
            standing = standings.get(id_)
            if standing is None or not standing.history:
                if row.status == WAITING:
                    found[id_] = "waiting"
                continue
            stamp = read_at[id_], standing.history[-1], standing.assigned
            known = self._known.get(id_)
            if known is None or known[0] != stamp[0] or known[1] is not stamp[1] or known[2] != stamp[2]:
                known = self._known[id_] = (*stamp, state_of(run.line(id_), standing))
            found[id_] = known[3]
        digest = hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]
        self._states = version, ReviewStates(found, digest)
        return self._states[1]


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
