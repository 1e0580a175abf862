"""Progress of the build of a corpus: a bar on a terminal, and now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from cli.terminal import duration, messages, safe

if TYPE_CHECKING:
    from retrieval.building import Progress as Step

_LINE_EVERY_S = 15.0


class BuildProgress:
    """Shows on standard error how far a build is, how fast, and how long it will take; a context manager."""

    def __init__(self) -> None:
        self._console = messages()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[count]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not sys.stderr.isatty(),
            transient=True,
        )
        self._task = self._bar.add_task("reading", total=None, count="")
        self._begin = self._last_line = time.perf_counter()
        self._first: Step | None = None

    def __call__(self, step: Step) -> None:
        """A part or a thousand documents are done."""
        first = self._first
        if first is None or first.stage != step.stage:
            # What an earlier build had left tells nothing of the rate of this one.
            self._first, self._begin = step, time.perf_counter()
            self._bar.reset(
                self._task, total=step.total, completed=step.done, description=step.stage, count=""
            )
            return
        now = time.perf_counter()
        seconds = now - self._begin
        rate = (step.documents - first.documents) / seconds if seconds else 0.0
        count = f"{step.documents:,} documents" + (f", {rate:,.0f}/s" if rate else "")
        self._bar.update(self._task, completed=step.done, total=step.total, count=count)
        if self._bar.disable and now - self._last_line > _LINE_EVERY_S:
            self._last_line = now
            done = step.done - first.done
            left = f", {duration(seconds * (step.total - step.done) / done)} left" if done else ""
            share = f"{step.stage} {step.done / step.total:.0%}" if step.total else step.stage
            self._console.print(safe(f"{share}: {count}{left}"), soft_wrap=True)

    def __enter__(self) -> BuildProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
