"""A line for each training that runs, and one for the study."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as RichProgress

from cli.terminal import duration, messages, safe

if TYPE_CHECKING:
    from evals.studies.jobs import Job
    from evals.studies.worker import Report

_LINE_EVERY_S = 60.0


class StudyProgress:
    """Shows trainings on standard error: bars on a terminal, a line a minute elsewhere; a context manager."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._left = sum(bool(job.missing) for job in jobs)
        self._all = len(jobs)
        self._durations: list[float] = []
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[details]}"),
            console=messages(),
            disable=not sys.stderr.isatty(),
        )
        self._tasks: dict[str, TaskID] = {}
        self._spoken: dict[str, float] = {}

    def remark(self, text: str) -> None:
        """Say something beside the bars."""
        self._bar.console.print(safe(text), soft_wrap=True)

    def began(self, job: Job) -> None:
        """Show a bar."""
        self._tasks[job.name] = self._bar.add_task(job.name, total=1.0, details="starting")
        self._spoken[job.name] = time.monotonic()

    def progress(self, job: Job, report: Report, seconds: float) -> None:
        """Move the bar; elsewhere a line a minute."""
        if report.kind == "remark":
            self.remark(f"{job.name}: {report.text}")
            return
        left = "" if report.seconds_left is None else f", {duration(report.seconds_left)} left"
        details = f"{report.text}{left}"
        self._bar.update(self._tasks[job.name], completed=report.share, details=details)
        now = time.monotonic()
        if self._bar.disable and now - self._spoken[job.name] >= _LINE_EVERY_S:
            self._spoken[job.name] = now
            self.remark(f"{job.name}: {report.share:.0%} of {details}")

    def ended(self, job: Job, report: Report, seconds: float) -> None:
        """Drop the bar and say how it went."""
        self._bar.remove_task(self._tasks.pop(job.name))
        self._left -= 1
        self._durations.append(seconds)
        line = f"{job.name}: {report.kind} in {duration(seconds)}"
        if report.text:
            line += f": {report.text}"
        # Jobs that run side by side end side by side.
        beside = 1 + len(self._tasks)
        mean = sum(self._durations) / len(self._durations)
        if self._left:
            line += f"; {self._left} of {self._all} left, about {duration(mean * self._left / beside)}"
        self.remark(line)

    def __enter__(self) -> StudyProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
