from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.protocol.limits import DECREASE, AdaptiveLimiter


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def a_limiter(width: float = 2.0, most: int = 64) -> AdaptiveLimiter:
    return AdaptiveLimiter(width, most)


@dataclass
class Crowd:
    """Tasks that hold a place until they are told to leave."""

    limiter: AdaptiveLimiter
    order: list[int] = field(default_factory=list)
    inside: list[asyncio.Event] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def _hold(self, priority: int) -> None:
        async with self.limiter.place(priority):
            self.order.append(priority)
            leave = asyncio.Event()
            self.inside.append(leave)
            await leave.wait()

    async def come(self, *priorities: int) -> None:
        self.tasks += [asyncio.create_task(self._hold(priority)) for priority in priorities]
        await settle()

    async def leave(self, number: int = 1) -> None:
        for _ in range(number):
            if self.inside:
                self.inside.pop(0).set()
                await settle()

    async def go_home(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_slow_start_doubles_the_width_in_a_round() -> None:
    crowd = Crowd(a_limiter(4.0))
    await crowd.come(*range(100))
    for _ in range(1 + 4):
        await crowd.leave()
        crowd.limiter.succeeded()
    assert crowd.limiter.width == 8.0
    await crowd.go_home()


async def test_slow_start_goes_back_where_wider_did_no_more_work(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("serving.protocol.limits.time.monotonic", lambda: clock[0])
    crowd = Crowd(a_limiter(4.0))
    await crowd.come(*range(200))
    widths = []
    for _ in range(24):
        await crowd.leave()
        # A full server: four replies a second, however wide it is.
        clock[0] += 0.25
        crowd.limiter.succeeded()
        widths.append(crowd.limiter.width)
    assert max(widths) == 8.0
    assert widths[-1] == 4.0
    await crowd.go_home()


async def test_after_a_cut_a_round_widens_by_one() -> None:
    crowd = Crowd(a_limiter(10.0))
    await crowd.come(*range(100))
    crowd.limiter.refused(time.monotonic(), None)
    await crowd.leave(3)
    assert crowd.limiter.under_way == 7 == int(crowd.limiter.width)
    for _ in range(1 + 7):
        await crowd.leave()
        crowd.limiter.succeeded()
    assert crowd.limiter.width == 8.0
    await crowd.go_home()


async def test_requests_refused_together_cut_once() -> None:
    limiter = a_limiter(10.0)
    async with AsyncExitStack() as stack:
        taken = [await stack.enter_async_context(limiter.place(0)) for _ in range(5)]
        for moment in taken:
            limiter.refused(moment, None)
        assert (limiter.cuts, limiter.width) == (1, 10.0 * DECREASE)
        limiter.refused(await stack.enter_async_context(limiter.place(0)), None)
        assert limiter.cuts == 2


async def test_a_pause_lets_nobody_in_until_it_is_over() -> None:
    crowd = Crowd(a_limiter(8.0))
    started = time.monotonic()
    crowd.limiter.refused(started, 1.0)
    await crowd.come(1, 2)
    assert crowd.inside == []
    async with asyncio.timeout(120), crowd.limiter.place(3):
        # Timers of an event loop may be a hundredth early.
        assert time.monotonic() - started >= 0.99
    assert crowd.order == [1, 2]
    await crowd.go_home()


async def test_the_earliest_case_is_let_in_first_and_equals_in_order() -> None:
    crowd = Crowd(a_limiter(1.0))
    await crowd.come(9, 5, 3, 5, 1)
    await crowd.leave(5)
    assert crowd.order == [9, 1, 3, 5, 5]
    await crowd.go_home()


async def test_a_waiter_that_is_cancelled_takes_no_place() -> None:
    crowd = Crowd(a_limiter(1.0))
    await crowd.come(1, 2, 3)
    crowd.tasks[1].cancel()
    await settle()
    await crowd.leave()
    assert crowd.order == [1, 3]
    await crowd.go_home()
    assert crowd.limiter.under_way == 0


async def test_a_place_given_to_a_waiter_in_the_moment_of_its_cancellation_goes_to_the_next() -> None:
    crowd = Crowd(a_limiter(1.0))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(crowd.limiter.place(0))
        await crowd.come(1, 2)
        # The place is handed over as it is left, before the waiter has run.
    crowd.tasks[0].cancel()
    await settle()
    assert crowd.order == [2]
    await crowd.go_home()
    assert crowd.limiter.under_way == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.integers(0, 3)),
        st.tuples(st.just("leave"), st.booleans()),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("refuse"), st.booleans()),
    ),
    max_size=60,
)


@given(width=st.integers(1, 4), most=st.integers(4, 8), steps=STEPS)
def test_nobody_is_let_in_beyond_the_width(width: int, most: int, steps: list[tuple[str, int]]) -> None:
    async def play() -> None:
        crowd = Crowd(AdaptiveLimiter(float(width), most))
        limiter = crowd.limiter
        for step, value in steps:
            before = limiter.under_way
            if step == "come":
                await crowd.come(value)
            elif step == "leave":
                await crowd.leave()
                if value:
                    limiter.succeeded()
            elif step == "cancel" and crowd.tasks:
                crowd.tasks[value % len(crowd.tasks)].cancel()
            elif step == "refuse":
                limiter.refused(time.monotonic(), 0.0 if value else None)
            await settle()
            assert 1 <= int(limiter.width) <= most
            assert limiter.under_way <= max(before, int(limiter.width))
        await crowd.go_home()
        assert limiter.under_way == 0

    asyncio.run(play())
