"""Expected progress of a batch while its cases run, for display and for other processes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path

from cases.records import Case
from cases.texts import plural
from runs.execute.assemble import Assembly
from runs.execute.rehearsal import REHEARSED, Forecast, forecast
from runs.execute.watcher import PROGRESS, PaceMeter, Progress, Watcher, write_progress
from serving.protocol.budget import Prices

_SHOW_EVERY_S = 0.5
_WRITE_EVERY_S = 2.0

LATE_S = 120.0
"""A request without a reply for so long is reported."""

_PRIOR_CASES = 2
"""Weight of the forecast next to cases that have ended: short ones end first."""


class Expectation:
    """Expected calls of a case, from ended cases and, if available, a rehearsal of the first ones."""

    def __init__(
        self, assembly: Assembly, skipped: Collection[str], progress: Progress, prices: Prices
    ) -> None:
        self._assembly = assembly
        self._skipped = skipped
        self._progress = progress
        self._prices = prices
        self._prior: Forecast | None = None

    async def forecast(self) -> Forecast | None:
        source = self._assembly.source
        first = (case for case in source if isinstance(case, Case) and case.id not in self._skipped)
        self._prior = await forecast(self._assembly, islice(first, REHEARSED), self._prices)
        self._expect()
        return self._prior

    def ended(self, calls: int) -> None:
        self._progress.cases_ended += 1
        self._progress.calls_ended += calls
        self._expect()

    def _expect(self) -> None:
        progress, prior = self._progress, self._prior
        weight = 0 if prior is None else _PRIOR_CASES
        calls = progress.calls_ended + (0.0 if prior is None else weight * prior.calls)
        cases = progress.cases_ended + weight
        progress.calls_a_case = calls / cases if cases else None


class LateReplies:
    """Reports requests that have waited for long, ever more seldom."""

    def __init__(self) -> None:
        self._next = LATE_S

    def line(self, waited: Iterable[float]) -> str | None:
        """Message to report now, if any; `waited` has the seconds of every request."""
        late = [seconds for seconds in waited if seconds >= LATE_S]
        longest = max(late, default=0.0)
        if not late:
            self._next = LATE_S
        if longest < self._next:
            return None
        while self._next <= longest:
            self._next *= 2
        have = "has" if len(late) == 1 else "have"
        return f"{plural(len(late), 'request')} {have} waited {longest // 60:.0f} min for a reply (--timeout)"


@asynccontextmanager
async def shown_while_running(
    folder: Path, progress: Progress, watcher: Watcher, sent: Collection[float] = ()
) -> AsyncIterator[None]:
    """Show progress while cases are under way, and leave it in the run's folder for the page.

    `sent` holds when each request left that has no reply yet, on the monotonic clock.
    """
    shown = asyncio.create_task(_show(folder / PROGRESS, progress, watcher, sent))
    try:
        yield
    finally:
        shown.cancel()
        await asyncio.gather(shown, return_exceptions=True)
        with contextlib.suppress(OSError):
            (folder / PROGRESS).unlink(missing_ok=True)


async def _show(path: Path, progress: Progress, watcher: Watcher, sent: Collection[float]) -> None:
    written = time.monotonic()
    late, meter = LateReplies(), PaceMeter()
    meter.read(progress, written)
    while True:
        await asyncio.sleep(_SHOW_EVERY_S)
        watcher.update(progress)
        now = time.monotonic()
        if (line := late.line(now - moment for moment in sent)) is not None:
            watcher.notify(line)
        if now - written >= _WRITE_EVERY_S:
            written = now
            # The run does without; a full disk is reported where results are written.
            with contextlib.suppress(OSError):
                write_progress(path, progress, meter.read(progress, now))
