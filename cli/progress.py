"""Progress of long work: bars on a terminal, and occasional lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn
from rich.progress import Progress as Bars
from rich.table import Column

from cases.texts import per_time
from cli.terminal import WIDE, duration, messages, safe
from weights.loading import listening

_LINE_EVERY_S = 15.0


@contextmanager
def progress(task: str = "", total: float | None = None) -> Iterator[Progress]:
    """Show progress on standard error, of one task from the start if it is named."""
    if not sys.stderr.isatty():
        lines = Progress()
        with listening(lines.loading):
            yield _started(lines, task, total)
        return
    console = messages()
    name = TextColumn("{task.description}", markup=False)
    bar = BarColumn(10 if console.width < WIDE else 40)
    # It takes the width that the others leave.
    text = TextColumn("{task.fields[text]}", markup=False, table_column=Column(no_wrap=True, ratio=1))
    with Bars(SpinnerColumn(), name, bar, text, console=console, transient=True, expand=True) as bars:
        shown = _Bars(bars)
        with listening(shown.loading):
            yield _started(shown, task, total)


def _started(shown: Progress, task: str, total: float | None) -> Progress:
    if task:
        shown.start(task, total)
    return shown


@dataclass(slots=True)
class _Task:
    """A task. What an earlier session had done by the first report says nothing of the rate."""

    total: float | None
    percent: bool
    timed: bool
    begin: float
    last_line: float
    first: float | None = None

    def text(self, done: float, details: str) -> str:
        """Count, details, rate and time left."""
        now = time.monotonic()
        if self.first is None or done < self.first:
            self.first, self.begin = done, now
        parts = [details] if details else []
        if self.total:
            count = f"{done / self.total:.0%}" if self.percent else f"{done:,} of {self.total:,}"
            parts.insert(0, count)
            new, seconds = done - self.first, now - self.begin
            if self.timed and new > 0 and seconds > 0:
                rate = new / seconds
                parts += [] if self.percent else [per_time(rate)]
                parts.append(f"{duration(seconds * (self.total - done) / new)} left")
        return ", ".join(parts)


class Progress:
    """Shows tasks on standard error while they go on: by a line of each now and then."""

    def __init__(self) -> None:
        self._console = messages()
        self._tasks: dict[str, _Task] = {}
        self._loading: dict[str, float] = {}

    def start(
        self, task: str, total: float | None = None, *, percent: bool = False, timed: bool = True
    ) -> None:
        """Show a task; one of this name begins anew.

        Args:
            task: Counted unit, or the name of the task.
            total: None if unknown or not counted.
            percent: Show the completed share of the total instead of two numbers.
            timed: Show rate and time left, from progress since the first report.
        """
        self._tasks.pop(task, None)
        now = time.monotonic()
        self._tasks[task] = _Task(total, percent, timed, now, now)

    def loading(self, what: str, begins: bool) -> None:
        """Say how long something took to load, if it was long; called in any thread."""
        if begins:
            self._loading[what] = time.monotonic()
        elif (seconds := time.monotonic() - self._loading.pop(what)) >= _LINE_EVERY_S:
            self.notify(f"loaded {what} in {duration(seconds)}")

    def advance(
        self, done: float = 0, total: float | None = None, details: str = "", *, task: str = ""
    ) -> None:
        """Show how far a task is, the named one or the one that was started last, with details."""
        name = task or list(self._tasks)[-1]
        of_name = self._tasks[name]
        of_name.total = of_name.total if total is None else total
        self._show(name, of_name, done, of_name.text(done, details))

    def notify(self, text: str) -> None:
        """Print a line that stays."""
        self._console.print(safe(text), soft_wrap=True)

    def stop(self, task: str) -> None:
        del self._tasks[task]

    def _show(self, name: str, task: _Task, done: float, text: str) -> None:
        now = time.monotonic()
        if now - task.last_line >= _LINE_EVERY_S and done != task.total:
            task.last_line = now
            self.notify(", ".join([f"{name}: {text}", *(f"loading {what}" for what in self._loading)]))


class _Bars(Progress):
    """A bar of each task."""

    def __init__(self, bars: Bars) -> None:
        super().__init__()
        self._console = bars.console
        self._bars = bars
        self._ids: dict[str, TaskID] = {}
        self._loading_bars: list[tuple[str, TaskID]] = []

    def start(
        self, task: str, total: float | None = None, *, percent: bool = False, timed: bool = True
    ) -> None:
        if task in self._tasks:
            self.stop(task)
        super().start(task, total, percent=percent, timed=timed)
        self._ids[task] = self._bars.add_task(task, total=total, text="")

    def loading(self, what: str, begins: bool) -> None:
        task = f"loading {what}"
        if begins:
            self._loading_bars.append((task, self._bars.add_task(task, total=None, text="")))
        else:
            name, bar = next(one for one in self._loading_bars if one[0] == task)
            self._loading_bars.remove((name, bar))
            self._bars.remove_task(bar)

    def stop(self, task: str) -> None:
        super().stop(task)
        self._bars.remove_task(self._ids.pop(task))

    def _show(self, name: str, task: _Task, done: float, text: str) -> None:
        self._bars.update(self._ids[name], completed=done, total=task.total, text=safe(text).plain)


class Steps:
    """A bar of each step, begun when it is first heard of; `percent` shows its share in place of numbers."""

    def __init__(self, shown: Progress, *, percent: bool = False) -> None:
        self._shown, self._percent = shown, percent
        self._step = ""

    def show(self, step: str, done: int, total: int, details: str = "") -> None:
        """Show how far a step is."""
        if step != self._step:
            if self._step:
                self._shown.stop(self._step)
            self._step = step
            self._shown.start(step, total, percent=self._percent)
        self._shown.advance(done, total, details)
