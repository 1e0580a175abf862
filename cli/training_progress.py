"""The progress of a training: a bar on a terminal, and now and then a line elsewhere."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cli.terminal import messages, safe
from ranking.training.progress import TrainingProgress

_LINE_EVERY_S = 15.0


class ProgressBar:
    """Shows a training on standard error; a context manager."""

    def __init__(self) -> None:
        self._bar = Progress(
            TextColumn("{task.fields[phase]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[details]}"),
            TimeRemainingColumn(),
            console=messages(),
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("steps", total=None, details="", phase="train")
        self._last_line = time.perf_counter()

    def update(self, progress: TrainingProgress) -> None:
        """Show epoch, loss and speed."""
        details = (
            f"epoch {progress.epoch} of {progress.epochs}, loss {progress.loss:.3f},"
            f" {progress.pairs_per_second:,.0f} pairs/s"
        )
        self._bar.update(
            self._task, phase=progress.phase, total=progress.steps, completed=progress.step, details=details
        )
        now = time.perf_counter()
        if self._bar.disable and now - self._last_line > _LINE_EVERY_S:
            self._last_line = now
            self.notify(f"{progress.phase}: step {progress.step} of {progress.steps}, {details}")

    def notify(self, text: str) -> None:
        """Say something beside the bar."""
        self._bar.console.print(safe(text), soft_wrap=True)

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


class StopRequest:
    """Whether a signal has asked to stop."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        """Asked after every step."""
        return self.asked


@contextmanager
def stop_on_signal(bar: ProgressBar) -> Iterator[StopRequest]:
    """Within it, a first SIGINT or SIGTERM asks to stop, and a second does not wait for anything."""
    request = StopRequest()

    def ask(number: int, frame: FrameType | None) -> None:
        if request.asked:
            raise KeyboardInterrupt
        request.asked = True
        bar.notify("stopping after this step; what is done is kept")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
