"""How much load servers get, and how long they may take. Nothing here changes a result."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

DEFAULT_MAX_RETRIES = 4
DEFAULT_TIMEOUT_S = 600.0
DEFAULT_MAX_OUTAGE_S = 120.0

DECREASE = 0.7
"""Factor of the width after a cut."""

GAIN = 1.1
"""How much more work a round must do than the best one before, to count as better."""

PATIENCE = 2
"""Rounds in a row without more work that end the slow start."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The user's limits for each endpoint.

    Attributes:
        max_connections: Limit of requests under way at once; None is the provider's default.
        start_connections: Requests under way at once at the start; the limiter adapts it.
        rpm: Limit of requests a minute.
        tpm: Limit of tokens a minute; a request counts with its prompt and its token limit.
        max_retries: Further attempts of a failed request; 0 means none.
        timeout: Seconds after which a request to a server without a complete reply fails.
        max_outage: Seconds for which requests wait for a server that is down, such as during a restart;
            without retries they do not wait.
        keep_thinking: Whether the journal keeps the text of thinking.
    """

    max_connections: int | None = None
    start_connections: int | None = None
    rpm: int | None = None
    tpm: int | None = None
    max_retries: int = DEFAULT_MAX_RETRIES
    timeout: float = DEFAULT_TIMEOUT_S
    max_outage: float = DEFAULT_MAX_OUTAGE_S
    keep_thinking: bool = False


@dataclass(slots=True)
class _Round:
    """As many replies as the endpoint is wide."""

    began: float
    replies: int = 0
    work: float = 0.0


@dataclass(slots=True)
class AdaptiveLimiter:
    """How many requests one endpoint gets at once, learnt from its answers as TCP learns a path's width.

    Slow start, additive increase, multiplicative decrease (Jacobson 1988). The slow start doubles the width
    round by round; it ends at the first rate limit, or once a wider endpoint does no more work: a full server
    only queues requests, and its prefix cache suffers. Waiting requests are served in order of their case, so
    that a case that has begun is finished before new ones take its place: its reflections still find their
    vote's prefill in the server's cache.

    Attributes:
        max_width: The width never grows beyond this.
        width: Requests that may be under way at once, a fraction while it grows slowly.
        under_way: Requests that have a place now.
        cuts: How often the width was cut.
    """

    width: float
    max_width: int
    under_way: int = 0
    cuts: int = 0
    _slow_start: bool = True
    _round: _Round | None = None
    _best_rate: float = 0.0
    _best_width: float = 0.0
    _rounds_without_gain: int = 0
    _closed_until: float = 0.0
    _last_cut: float = 0.0
    _turns: itertools.count[int] = field(default_factory=itertools.count)
    _waiting: list[tuple[int, int, asyncio.Future[None]]] = field(default_factory=list)
    _alarm: asyncio.TimerHandle | None = None
    _left: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def place(self, priority: int) -> AsyncIterator[float]:
        """Wait for a place, the lowest `priority` first; yields the moment at which it was taken."""
        if self._waiting or not self._is_open():
            await self._wait(priority)
        else:
            self.under_way += 1
        try:
            yield time.monotonic()
        finally:
            self.under_way -= 1
            self._left.set()
            self._admit()

    def succeeded(self, work: float = 1.0) -> None:
        """Grow, round by round: to the double in the slow start, then by one."""
        now = time.monotonic()
        if self.under_way < int(self.width):
            # Unless all its places are taken, replies do not show how much more the endpoint could take.
            self._round = None
            return
        if self._round is None:
            self._round = _Round(now)
            return
        self._round.replies += 1
        self._round.work += work
        if self._round.replies < int(self.width):
            return
        rate = self._round.work / max(now - self._round.began, 1e-9)
        self._round = _Round(now)
        self._grow(rate)
        self._admit()

    def _grow(self, rate: float) -> None:
        if not self._slow_start:
            self.width = min(self.width + 1.0, float(self.max_width))
        elif rate > GAIN * self._best_rate:
            self._best_rate, self._best_width = rate, self.width
            self._rounds_without_gain = 0
            self.width = min(2.0 * self.width, float(self.max_width))
        else:
            self._rounds_without_gain += 1
            if self._rounds_without_gain >= PATIENCE:
                self._slow_start = False
                self.width = self._best_width

    def refused(self, started: float, pause: float | None) -> None:
        """Cut after a rate limit, once for all the requests that were under way at the last cut.

        Args:
            started: When the refused request took its place.
            pause: Seconds without any request, where the endpoint asked for that.
        """
        now = time.monotonic()
        if pause is not None:
            self._closed_until = max(self._closed_until, now + pause)
        if started < self._last_cut:
            return
        self._last_cut = now
        self._slow_start = False
        self._round = None
        self.cuts += 1
        self.width = max(1.0, self.width * DECREASE)

    def resize(self, max_width: int) -> None:
        """Set how wide it may grow, and keep the share of that which was learnt.

        Requests under way keep their places, so for a moment there may be more of them.
        """
        self.width = max(1.0, self.width * max_width / self.max_width)
        self._best_width *= max_width / self.max_width
        self.max_width = max_width
        self._round = None
        self._admit()

    async def shrunk_to(self, places: int) -> None:
        """Wait until no more requests than that are under way."""
        while self.under_way > places:
            self._left.clear()
            await self._left.wait()

    async def opened(self) -> None:
        """Wait until no pause is left, for a request that has its place."""
        if (left := self._closed_until - time.monotonic()) > 0:
            await asyncio.sleep(left)
            # A longer one may have come meanwhile.
            await self.opened()

    def _is_open(self) -> bool:
        return self.under_way < int(self.width) and time.monotonic() >= self._closed_until

    async def _wait(self, priority: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._turns), turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The place was given in the same moment; pass it on.
                self.under_way -= 1
                self._admit()
            raise

    def _admit(self) -> None:
        """Admit as many as there is room for, or look again once the pause is over."""
        while self._waiting and self._is_open():
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                self.under_way += 1
                turn.set_result(None)
        left = self._closed_until - time.monotonic()
        if self._waiting and left > 0 and self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(left, self._pause_is_over)

    def _pause_is_over(self) -> None:
        self._alarm = None
        self._admit()
