"""A progress bar on a terminal, and now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from cli.terminal import messages, safe
from runs.watcher import Progress

_LINE_EVERY_S = 15.0


class BatchProgress:
    """Shows a batch's progress on standard error; a context manager."""

    def __init__(self) -> None:
        self._console = messages()
        self._bar = RichProgress(
            TextColumn("cases"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[details]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("cases", total=None, details="")
        self._begin = time.perf_counter()
        self._last_line = self._begin

    def remark(self, text: str) -> None:
        """Say something beside the bar."""
        self._bar.console.print(safe(text), soft_wrap=True)

    def update(self, progress: Progress) -> None:
        """Show the counts, the tokens and the rate."""
        now = time.perf_counter()
        seconds = max(now - self._begin, 1e-9)
        ended = progress.done + progress.failed + progress.waiting
        tokens = progress.usage.input_tokens + progress.usage.output_tokens
        waiting = f"{progress.waiting} waiting, " if progress.waiting else ""
        details = f"{progress.failed} failed, {waiting}{tokens:,} tokens, {tokens / seconds:,.0f} tokens/s"
        if progress.usage.cost is not None:
            details += f", cost {progress.usage.cost:.4g}"
        self._bar.update(self._task, total=progress.total, completed=ended, details=details)
        if self._bar.disable and (now - self._last_line > _LINE_EVERY_S):
            self._last_line = now
            self.remark(f"{ended} of {progress.total} cases, {details}")

    def __enter__(self) -> BatchProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
