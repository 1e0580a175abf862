"""One address with its limits and its health."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from aiolimiter import AsyncLimiter

from serving.protocol.errors import CallError
from serving.protocol.limits import AdaptiveLimiter

logger = logging.getLogger("evigraph.serving")

_MINUTE_S = 60.0
_FIRST_LOOK_S = 0.5
_MAX_PAUSE_S = 15.0

MAX_TIMEOUTS = 3
"""Requests in a row without a reply in time, after which a server counts as stuck."""


@dataclass(frozen=True, slots=True)
class Look:
    """How to find out whether an address is well.

    Attributes:
        quick: Whether the server is up, None where it cannot be asked; may raise a CallError with the reason.
        thorough: Whether it answers the smallest request, for a server that is up and answers nothing.
    """

    quick: Callable[[], Awaitable[bool]] | None
    thorough: Callable[[], Awaitable[bool]]


class Rate(Protocol):
    """How much may be sent in a minute."""

    max_rate: float

    async def acquire(self, amount: float = 1) -> None:
        """Wait for room."""


@dataclass(slots=True)
class Endpoint:
    """Shared by all roles, cases and votes that go to one address.

    Attributes:
        address: Names it.
        limiter: How many requests it gets at once.
        look: How to find out whether it is well; None for a model in this process, which is never away.
        choice_limiter: How many choice requests it gets at once, None where they share the places.
        spent: A request has used up its attempts and none has succeeded since. Each request then gets a
            single attempt, so that a batch soon ends where a service only fails.
    """

    address: str
    limiter: AdaptiveLimiter
    look: Look | None
    rpm: Rate | None = None
    tpm: Rate | None = None
    choice_limiter: AdaptiveLimiter | None = None
    spent: bool = False
    _reason: CallError | None = None
    _down_since: float = 0.0
    _timeouts: int = 0
    _turn: AdaptiveLimiter = field(default_factory=lambda: AdaptiveLimiter(1.0, 1))
    _up: asyncio.Event = field(default_factory=asyncio.Event)
    _looking: asyncio.Task[None] | None = None
    _watch: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self._up.set()

    @property
    def down(self) -> bool:
        """Whether it was found down or stuck; requests go elsewhere until it is back."""
        return not self._up.is_set()

    @asynccontextmanager
    async def place(self, priority: int, tokens: int, *, choice: bool = False) -> AsyncIterator[float]:
        """Wait for a place and for the rates; yields the moment at which the request may leave."""
        limiter = self.choice_limiter if choice and self.choice_limiter is not None else self.limiter
        if self.rpm is None and self.tpm is None:
            async with limiter.place(priority) as taken:
                yield taken
            return
        async with contextlib.AsyncExitStack() as place:
            # One request at a time waits for permits: taken earlier, they would be old ones after a pause,
            # and an earlier case could not overtake.
            async with self._turn.place(priority):
                await place.enter_async_context(limiter.place(priority))
                if self.rpm is not None:
                    await self.rpm.acquire()
                if self.tpm is not None:
                    # A request larger than a whole minute's tokens has to wait for all of them.
                    await self.tpm.acquire(min(tokens, self.tpm.max_rate))
                await limiter.opened()
            yield time.monotonic()

    @property
    def widths(self) -> tuple[int, int]:
        """The most requests at once, and the most choice requests; 0 where they share places."""
        choices = 0 if self.choice_limiter is None else self.choice_limiter.max_width
        return self.limiter.max_width, choices

    async def resize(self, width: int, choices: int) -> None:
        """Change these, and wait until no more requests than that are under way."""
        limiters = [(self.limiter, width)]
        if self.choice_limiter is not None:
            limiters.append((self.choice_limiter, choices))
        for limiter, most in limiters:
            limiter.resize(most)
        for limiter, most in limiters:
            await limiter.shrunk_to(most)

    async def wait_until_up(self, max_outage: float) -> None:
        """Wait until it is back.

        Args:
            max_outage: Seconds since it went down for which requests wait.

        Raises:
            CallError: It has been down for longer.
        """
        if self._up.is_set():
            return
        reason = self._reason or CallError("connection", "no answer")
        if not reason.retryable:
            # Only a person can fix this, so waiting would merely delay the message.
            raise reason
        try:
            await asyncio.wait_for(self._up.wait(), self._down_since + max_outage - time.monotonic())
        except TimeoutError:
            message = f"{self.address}: away for more than {max_outage:g} s: {reason}"
            raise CallError(reason.error_class, message, retryable=False) from None

    async def failed(self, error: CallError) -> None:
        """After a failure that may be the server's: is it down, or stuck? Simultaneous looks are shared."""
        self._timeouts = self._timeouts + 1 if error.error_class == "timeout" else 0
        if self.down or self.look is None:
            return
        if self._looking is None or self._looking.done():
            thoroughly = self._timeouts >= MAX_TIMEOUTS
            self._looking = asyncio.create_task(self._look_at_it(self.look, error, thoroughly))
        await asyncio.shield(self._looking)

    def succeeded(self, work: float) -> None:
        """It answered; `work` is the length of the replies in tokens."""
        self._timeouts = 0
        self.spent = False
        self.limiter.succeeded(work)

    async def _look_at_it(self, look: Look, error: CallError, thoroughly: bool) -> None:
        if look.quick is not None:
            try:
                if not await look.quick():
                    self.mark_down(error, look.quick)
                    return
            except CallError as reason:
                # The look knows more than the request, which may have been cut off without a reason.
                self.mark_down(reason.at(self.address), look.quick)
                return
        if thoroughly and not await look.thorough():
            self.mark_down(error, look.thorough)

    def mark_down(self, reason: CallError, is_back: Callable[[], Awaitable[bool]]) -> None:
        """Send it no requests until `is_back` is true."""
        if self.down:
            return
        self._up.clear()
        self._reason, self._down_since = reason, time.monotonic()
        logger.info("%s is away: %s", self.address, reason)
        self._watch = asyncio.create_task(self._wait_for_return(is_back))

    async def close(self) -> None:
        for task in (self._looking, self._watch):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _wait_for_return(self, is_back: Callable[[], Awaitable[bool]]) -> None:
        pause = _FIRST_LOOK_S
        while not await _said_yes(is_back):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_S)
        self._timeouts = 0
        logger.info("%s is back after %.0f s", self.address, time.monotonic() - self._down_since)
        self._up.set()


async def _said_yes(is_back: Callable[[], Awaitable[bool]]) -> bool:
    try:
        return await is_back()
    except CallError:
        return False


def rate(per_minute: int | None) -> AsyncLimiter | None:
    """A leaky bucket of one minute."""
    return None if per_minute is None else AsyncLimiter(per_minute, _MINUTE_S)
