"""One address with its limits and its health."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiolimiter import AsyncLimiter

from serving.errors import CallError
from serving.limiter import AdaptiveLimiter

_MINUTE_S = 60.0
_FIRST_LOOK_S = 0.5
_LONGEST_PAUSE_S = 15.0

MOST_TIMEOUTS = 3
"""Requests in a row without a reply in time, after which an address counts as stuck."""


class Look:
    """How to find out whether an address is well.

    Attributes:
        quick: Whether the server is there, None where nobody can say; raises a CallError that says why not.
        thorough: Whether it answers the smallest request, for one that is there and answers nothing.
    """

    def __init__(
        self, quick: Callable[[], Awaitable[bool]] | None, thorough: Callable[[], Awaitable[bool]]
    ) -> None:
        """Keep both."""
        self.quick = quick
        self.thorough = thorough


@dataclass(slots=True)
class Endpoint:
    """Shared by all roles, cases and votes that go to one address.

    Attributes:
        address: Names it.
        limiter: How many requests it gets at once.
        look: How to find out whether it is well.
        report: Told when it goes and when it comes back.
        spent: A request has used up its attempts and none has succeeded since. Each request then gets a
            single attempt, so that a service that only fails ends a batch soon.
    """

    address: str
    limiter: AdaptiveLimiter
    look: Look
    report: Callable[[str], None]
    rpm: AsyncLimiter | None = None
    tpm: AsyncLimiter | None = None
    spent: bool = False
    _reason: CallError | None = None
    _down_since: float = 0.0
    _timeouts: int = 0
    _up: asyncio.Event = field(default_factory=asyncio.Event)
    _looking: asyncio.Task[None] | None = None
    _watch: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        """Well until it is found otherwise."""
        self._up.set()

    @property
    def down(self) -> bool:
        """Whether it was found gone or stuck; requests go elsewhere until it is back."""
        return not self._up.is_set()

    @asynccontextmanager
    async def place(self, priority: int, tokens: int) -> AsyncIterator[float]:
        """Wait for the rates and for a place; gives the moment at which it was taken."""
        if self.rpm is not None:
            await self.rpm.acquire()
        if self.tpm is not None:
            # A request larger than a whole minute's tokens has to wait for all of them.
            await self.tpm.acquire(min(tokens, self.tpm.max_rate))
        async with self.limiter.place(priority) as taken:
            yield taken

    async def wait_until_up(self, most: float) -> None:
        """Wait for its return.

        Args:
            most: Seconds since it went for which that is worth it.

        Raises:
            CallError: It has been away for longer.
        """
        if self._up.is_set():
            return
        reason = self._reason or CallError("connection", "no answer")
        if not reason.curable:
            # A person has to mend it, and a run that waits for that tells nobody.
            raise reason
        try:
            await asyncio.wait_for(self._up.wait(), self._down_since + most - time.monotonic())
        except TimeoutError:
            message = f"{self.address}: away for more than {most:g} s: {reason}"
            raise CallError(reason.error_class, message, curable=False) from None

    async def failed(self, error: CallError) -> None:
        """After a failure that may be the server's: is it gone, or stuck? Looks at one time are shared."""
        self._timeouts = self._timeouts + 1 if error.error_class == "timeout" else 0
        if self.down:
            return
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_at_it(error, self._timeouts >= MOST_TIMEOUTS))
        await asyncio.shield(self._looking)

    def succeeded(self, work: float) -> None:
        """It answers; `work` is what the replies were worth, in tokens."""
        self._timeouts = 0
        self.spent = False
        self.limiter.succeeded(work)

    async def _look_at_it(self, error: CallError, thoroughly: bool) -> None:
        if self.look.quick is not None:
            try:
                if not await self.look.quick():
                    self.mark_down(error, self.look.quick)
                    return
            except CallError as reason:
                # The look knows better than the request, which may have been cut off without a word.
                known = CallError(reason.error_class, f"{self.address}: {reason}", curable=reason.curable)
                self.mark_down(known, self.look.quick)
                return
        if thoroughly and not await self.look.thorough():
            self.mark_down(error, self.look.thorough)

    def mark_down(self, reason: CallError, is_back: Callable[[], Awaitable[bool]]) -> None:
        """Take it out until `is_back` says so."""
        if self.down:
            return
        self._up.clear()
        self._reason, self._down_since = reason, time.monotonic()
        self.report(f"{self.address} is away: {reason}")
        self._watch = asyncio.create_task(self._wait_for_return(is_back))

    async def close(self) -> None:
        """Stop looking."""
        for task in (self._looking, self._watch):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _wait_for_return(self, is_back: Callable[[], Awaitable[bool]]) -> None:
        pause = _FIRST_LOOK_S
        while not await _said_yes(is_back):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        self._timeouts = 0
        self.report(f"{self.address} is back after {time.monotonic() - self._down_since:.0f} s")
        self._up.set()


async def _said_yes(is_back: Callable[[], Awaitable[bool]]) -> bool:
    try:
        return await is_back()
    except CallError:
        return False


def rate(per_minute: int | None) -> AsyncLimiter | None:
    """A leaky bucket of one minute."""
    return None if per_minute is None else AsyncLimiter(per_minute, _MINUTE_S)
