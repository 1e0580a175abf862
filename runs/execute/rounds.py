"""Runs whose models answer in batches: cases go as far as they can, then batches go, then their answers come.

Each round runs the graph of every case that is not waiting, from its start over journalled calls up to the
first calls without an answer. An open case is thus only its rows in the journal. As a suspended graph it took
130 to 210 kB in a tamu run, which is 2 GB for 10,000 cases; running it again takes milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from runs.execute.watcher import Progress, Watcher
from serving.backends import Backend
from serving.batches.desk import BatchDesk
from serving.batches.pool import Pool
from serving.journal.journal import Journal
from serving.requests.client import ModelClient

logger = logging.getLogger("evigraph.runs")

CASES_AT_ONCE = 16
"""Cases that run side by side until they wait: enough to keep an embedder busy."""

MAX_POLL_S = 600.0
POLL_S = 30.0
_BACK_OFF = 1.5


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How batches are waited for; nothing here changes a result.

    Attributes:
        detach: End once everything that can be submitted is.
        poll: Seconds between the first two looks at batches that are away; later ones are further apart.
        keep_remote: Leave files at the provider.
        online: Ask models that answer in batches one request at a time, in this session.
    """

    detach: bool = False
    poll: float = POLL_S
    keep_remote: bool = False
    online: bool = False


@dataclass(slots=True)
class Rounds:
    """The rounds of one session.

    Attributes:
        away: Calls that were in batches when it ended.
    """

    journal: Journal
    pool: Pool
    desk: BatchDesk
    options: BatchOptions
    progress: Progress
    watcher: Watcher
    away: int = 0

    async def run(self, one_pass: Callable[[set[str]], Awaitable[bool]], stop: asyncio.Event) -> bool:
        """Go on until no case is left, a stop, or everything is away and the session is to be left.

        `one_pass` runs all cases but those with the given ids as far as they go; whether all were reached.

        Returns:
            Whether no case is left.

        Raises:
            CallError: It cannot be known whether a provider took a batch.
        """
        self.desk.take_reserved()
        pause = self.options.poll
        standing: tuple[int, ...] = ()
        try:
            while True:
                before = self.desk.changed
                await self.desk.look()
                self._show()
                if self.desk.held:
                    # A batch that was rejected for now would be rejected again.
                    self.desk.held = False
                    if await _stopped(stop, pause):
                        return False
                waiting = self.journal.batches.waiting_cases()
                reached = await one_pass(waiting)
                if stop.is_set():
                    return False
                await self.pool.flush()
                self._show()
                if not self.away:
                    now = (self.progress.ended, self.pool.submitted, self.desk.changed)
                    if self.pool.left_open and now != standing:
                        # What waited has failed to be sent, or waited for the budget.
                        standing = now
                        continue
                    return reached and not self.pool.left_open
                if self.options.detach:
                    return False
                pause = (
                    self.options.poll
                    if self.desk.changed > before
                    else min(pause * _BACK_OFF, max(self.options.poll, MAX_POLL_S))
                )
                if await _stopped(stop, pause):
                    return False
        finally:
            # A submit that has begun is written down; nothing that was only collected is lost.
            try:
                await self.pool.close()
            except Exception as error:
                # Whatever ended the session is the error to show; the next one finds the batch by its nonce.
                logger.warning("a submit under way did not end well: %s", error)
            self._show()
            await self.desk.aclose()

    def _show(self) -> None:
        self.away = self.progress.away = self.journal.batches.away()
        self.watcher.update(self.progress)


async def _stopped(stop: asyncio.Event, seconds: float) -> bool:
    """Wait so long, or for a stop; whether that came."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
    return stop.is_set()


def begin_rounds(
    client: ModelClient,
    journal: Journal,
    options: BatchOptions,
    retries: int,
    progress: Progress,
    watcher: Watcher,
) -> Rounds | None:
    """The rounds of a session; None where no model answers in batches and none is away."""
    batched: dict[str, Backend] = {
        str(backend.name): backend for backend in client.backends.values() if backend.batches is not None
    }
    if not batched and not journal.batches.records(("intended", "away", "harvested")):
        return None
    desk = BatchDesk(journal, client, batched, watcher.notify, options.keep_remote, retries + 1)
    client.pool = Pool(journal, client.budget, desk, watcher.notify, retries)
    return Rounds(journal, client.pool, desk, options, progress, watcher)
