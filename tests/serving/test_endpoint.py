"""Rates of an address: permits are taken late, in the order of the cases, and not during a pause."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from serving.protocol.limits import AdaptiveLimiter
from serving.requests.endpoint import Endpoint

HOUR = 3600.0


@dataclass
class Permits:
    """A rate that gives a permit whenever the test says so."""

    max_rate: float = 60
    wanted: int = 0
    _given: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    async def acquire(self, amount: float = 1) -> None:
        self.wanted += 1
        await self._given.acquire()

    async def give(self, number: int = 1) -> None:
        for _ in range(number):
            self._given.release()
            await settle()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@asynccontextmanager
async def requests(endpoint: Endpoint, *priorities: int) -> AsyncIterator[list[int]]:
    """Requests that keep their places; yields the priorities of those that were sent, in order."""
    sent: list[int] = []

    async def send(priority: int) -> None:
        async with endpoint.place(priority, 10):
            sent.append(priority)
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(send(priority)) for priority in priorities]
    await settle()
    try:
        yield sent
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_requests_behind_a_pause_hold_no_permits() -> None:
    rate = Permits()
    endpoint = Endpoint("a", AdaptiveLimiter(8.0, 8), None, rpm=rate)
    endpoint.limiter.refused(0.0, HOUR)
    async with requests(endpoint, *range(8)):
        assert rate.wanted == 0


async def test_a_pause_that_comes_while_a_request_waits_for_its_permit_holds_for_it_too() -> None:
    rate = Permits()
    endpoint = Endpoint("a", AdaptiveLimiter(8.0, 8), None, rpm=rate)
    async with requests(endpoint, 1, 2, 3) as sent:
        endpoint.limiter.refused(0.0, HOUR)
        await rate.give(3)
        assert sent == [] and rate.wanted == 1


async def test_permits_go_to_the_earliest_case_first() -> None:
    rate = Permits()
    endpoint = Endpoint("a", AdaptiveLimiter(8.0, 8), None, rpm=rate)
    async with requests(endpoint, 5, 4, 3, 1, 2) as sent:
        await rate.give(5)
        # The first had asked for its permit before the others came.
        assert sent == [5, 1, 2, 3, 4]


async def test_an_endpoint_is_resized_with_its_choice_requests() -> None:
    both, one = (
        Endpoint("a", AdaptiveLimiter(8.0, 8), None, choice_limiter=choices)
        for choices in (AdaptiveLimiter(4.0, 4), None)
    )
    assert (both.widths, one.widths) == ((8, 4), (8, 0))
    await both.resize(2, 1)
    await one.resize(3, 0)
    assert (both.widths, one.widths) == ((2, 1), (3, 0))


async def test_places_stay_limited_where_permits_are_plenty() -> None:
    rate = Permits()
    endpoint = Endpoint("a", AdaptiveLimiter(2.0, 2), None, rpm=rate)
    await rate.give(8)
    async with requests(endpoint, *range(8)) as sent:
        assert sent == [0, 1]
        # The next one has no place yet, so it has asked for no permit.
        assert rate.wanted == 2
