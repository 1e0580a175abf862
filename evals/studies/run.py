"""Do the jobs of a study in processes side by side."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Protocol

from evals.studies.jobs import Job
from evals.studies.worker import Report, serve

_GRACE_S = 60.0
"""For a process that was asked to save and stop."""


class StudyWatcher(Protocol):
    """Follows the progress of a study."""

    def notify(self, text: str) -> None:
        """One line that a person should know."""

    def began(self, job: Job) -> None:
        """A job has begun."""

    def progress(self, job: Job, report: Report, seconds: float) -> None:
        """Where a job is, `seconds` after it began."""

    def ended(self, job: Job, report: Report, seconds: float) -> None:
        """A job is done or has failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the jobs ended.

    Attributes:
        failed: Names of jobs with the reason.
        interrupted: Whether somebody stopped the study.
    """

    done: int
    skipped: int
    failed: dict[str, str]
    interrupted: bool


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    connection: Connection
    job: Job | None = None
    began: float = field(default_factory=time.monotonic)


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def run_jobs(jobs: Sequence[Job], workers: int | None, watcher: StudyWatcher) -> Outcome:
    """Do every job that has no scores yet.

    A job that fails, or whose process dies, is named and the others go on. A key press stops: trainings save
    where they are, and the next start goes on there.

    Args:
        jobs: In order.
        workers: Processes side by side, each with an equal share of the processors; None is one for each.
        watcher: Follows the progress.
    """
    waiting = deque(job for job in jobs if job.missing)
    skipped = len(jobs) - len(waiting)
    count = min(workers or cores(), len(waiting))
    crew = _Crew(max(1, cores() // max(1, workers or cores())), watcher)
    try:
        while waiting or crew.busy:
            while waiting and len(crew.busy) < count:
                crew.begin(waiting.popleft())
            crew.listen()
    except KeyboardInterrupt:
        watcher.notify("stopping: trainings save where they are")
        return Outcome(crew.done, skipped, crew.failed, interrupted=True)
    finally:
        crew.dismiss()
    return Outcome(crew.done, skipped, crew.failed, interrupted=False)


class _Crew:
    """Processes that stay between jobs: their libraries take seconds to import."""

    def __init__(self, threads: int, watcher: StudyWatcher) -> None:
        self.done = 0
        self.failed: dict[str, str] = {}
        self.busy: list[_Worker] = []
        self._idle: list[_Worker] = []
        self._threads = threads
        self._watcher = watcher

    def begin(self, job: Job) -> None:
        """Give a job to a process that has none."""
        worker = self._idle.pop() if self._idle else self._hire()
        worker.job, worker.began = job, time.monotonic()
        worker.connection.send(job)
        self.busy.append(worker)
        self._watcher.began(job)

    def listen(self) -> None:
        """Wait for news, and hear them."""
        ready = wait([worker.connection for worker in self.busy])
        for worker in [worker for worker in self.busy if worker.connection in ready]:
            assert worker.job is not None
            try:
                report: Report = worker.connection.recv()
            except (EOFError, OSError):
                worker.process.join()
                code = worker.process.exitcode
                self._end(worker, Report("failed", f"its process ended by itself (exit code {code})"))
                worker.connection.close()
                continue
            if report.kind in ("progress", "notice"):
                self._watcher.progress(worker.job, report, time.monotonic() - worker.began)
                continue
            self._end(worker, report)
            self._idle.append(worker)

    def dismiss(self) -> None:
        """End all processes: the idle at once, the others when they have saved."""
        for worker in self._idle:
            try:
                worker.connection.send(None)
            except OSError:
                continue
        for worker in self.busy:
            if worker.job is not None and worker.job.baseline is not None:
                # It has nothing to save, and may fit for long without asking whether to stop.
                worker.process.kill()
            else:
                worker.process.terminate()
        deadline = time.monotonic() + _GRACE_S
        for worker in [*self._idle, *self.busy]:
            # The connection stays open until then: a process that cannot report would end before saving.
            worker.process.join(max(0.0, deadline - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.connection.close()
        self._idle, self.busy = [], []

    def _end(self, worker: _Worker, report: Report) -> None:
        assert worker.job is not None
        if report.kind == "done":
            self.done += 1
        else:
            self.failed[worker.job.name] = report.text
        self._watcher.ended(worker.job, report, time.monotonic() - worker.began)
        worker.job = None
        self.busy.remove(worker)

    def _hire(self) -> _Worker:
        # A fork would share the locks of whatever threads this process has.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, self._threads), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours)
