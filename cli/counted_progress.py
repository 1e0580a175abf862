"""Progress of work that has a count: a bar on a terminal, and now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cli.terminal import messages, safe

_LINE_EVERY_S = 15.0


class CountedProgress:
    """Shows on standard error how many of how many are done; a context manager."""

    def __init__(self, what: str, total: int = 0) -> None:
        self._what, self._total = what, total
        self._console = messages()
        self._bar = Progress(
            TextColumn(what),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self._console,
            disable=not sys.stderr.isatty(),
            transient=True,
        )
        self._task = self._bar.add_task(what, total=total)
        self._last_line = time.perf_counter()

    def update(self, done: int, total: int | None = None) -> None:
        """Show the count, with the total where only now it is known."""
        self._total = self._total if total is None else total
        self._bar.update(self._task, completed=done, total=self._total)
        now = time.perf_counter()
        if self._bar.disable and done < self._total and now - self._last_line > _LINE_EVERY_S:
            self._last_line = now
            self._console.print(safe(f"{done:,} of {self._total:,} {self._what}"), soft_wrap=True)

    def __enter__(self) -> CountedProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
