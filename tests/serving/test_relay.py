from __future__ import annotations

import asyncio
import contextlib
import pickle
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from serving.backends.backend import Backend, Server
from serving.journal.journal import Journal, JournalError
from serving.protocol.budget import Budget, BudgetSpent, Spend
from serving.protocol.limits import AdaptiveLimiter, Limits
from serving.protocol.messages import Answer
from serving.protocol.model_name import parse_model_name
from serving.requests.client import ModelClient
from serving.requests.endpoint import Endpoint
from serving.requests.relay import (
    Desk,
    Line,
    RelayedBudget,
    RelayedCalls,
    RelayedRate,
    RelayMessage,
    part,
    relay_rates,
)
from tests.serving.asks import as_sent

REQUEST = replace(as_sent(), model="scripted:auto")
ANSWER = Answer("Because.", "stop", 7, 3)
WITHOUT = Limits()


def sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - made two calls ago


@asynccontextmanager
async def relayed(
    folder: Path, budget: Budget, limits: Limits = WITHOUT
) -> AsyncIterator[tuple[Line, Desk, ModelClient]]:
    async def complete(*_: Any) -> list[Answer]:
        raise AssertionError("nothing is asked here")

    backend = Backend(parse_model_name("scripted:auto"), (Server("scripted:auto", complete),))
    journal = Journal(folder / "calls.sqlite")
    client = ModelClient({"label": backend}, journal, limits, budget=budget)
    line = Line(lambda message: take(message))
    failures: list[Exception] = []
    desk = Desk(client, journal, lambda number, value: line.replied(number, sent(value)), failures.append)

    def take(message: RelayMessage) -> None:
        assert desk.take(sent(message))

    try:
        yield line, desk, client
    finally:
        await desk.close()
        await client.aclose()
        journal.close()
        assert not failures


async def test_what_one_worker_was_answered_is_found_by_all(tmp_path: Path) -> None:
    async with relayed(tmp_path, Budget()) as (line, desk, client):
        calls = RelayedCalls(line)
        assert await calls.find_all(REQUEST) == {}
        await calls.keep_all(REQUEST, {0: ANSWER})
        assert await RelayedCalls(line).find_all(REQUEST) == {0: ANSWER}
        line.replied(99, "not asked for")
        assert not desk.take(("ended", {}))
        assert (client.usage.calls, client.usage.input_tokens, client.budget.spent.tokens) == (1, 7, 10)


async def test_a_worker_goes_on_with_answers_once_they_are_committed(tmp_path: Path) -> None:
    async with relayed(tmp_path, Budget()) as (line, _, client):
        with contextlib.closing(sqlite3.connect(tmp_path / "calls.sqlite")) as other:
            other.execute("BEGIN IMMEDIATE")
            kept = asyncio.ensure_future(RelayedCalls(line).keep_all(REQUEST, {0: ANSWER}))
            await asyncio.sleep(0.05)
            assert not kept.done() and client.usage.calls == 0
            other.rollback()
        await kept
        assert client.usage.calls == 1


@pytest.mark.parametrize(
    "told", [("store", 1, REQUEST, {0: ANSWER}), ("reject", 1, [REQUEST.key(0)])], ids=["store", "reject"]
)
async def test_what_cannot_be_written_ends_the_run(tmp_path: Path, told: RelayMessage) -> None:
    async with relayed(tmp_path, Budget()) as (line, _desk, client):
        await RelayedCalls(line).keep_all(REQUEST, {0: ANSWER})
        journal = Journal(tmp_path / "calls.sqlite", read_only=True)
        failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        desk = Desk(client, journal, lambda *_: None, failed.set_result)
        desk.take(told)
        assert isinstance(await failed, JournalError)
        assert client.usage.calls == 1
        journal.close()


async def test_rejected_replies_are_marked_in_the_journal(tmp_path: Path) -> None:
    async with relayed(tmp_path, Budget()) as (line, _, _client):
        calls = RelayedCalls(line)
        await calls.keep_all(REQUEST, {0: ANSWER})
        await calls.reject_all([REQUEST.key(0)])
    journal = Journal(tmp_path / "calls.sqlite")
    assert journal.forget_rejected() == 1
    journal.close()


async def test_workers_together_keep_to_the_budget(tmp_path: Path) -> None:
    async with relayed(tmp_path, Budget(max_tokens=100)) as (line, _, client):
        one, other = (RelayedBudget(line, 100, None) for _ in range(2))
        async with one.reserve(Spend(60), "1") as first:
            waiting = asyncio.ensure_future(_reserve(other, Spend(60)))
            await asyncio.sleep(0.01)
            assert not waiting.done()
            first.actual = Spend(30)
        await waiting
        assert client.budget.spent.tokens == 90
        with pytest.raises(BudgetSpent):
            await _reserve(one, Spend(60))
        # The budget has counted it where it was reserved; without a limit it is counted when it is stored.
        await RelayedCalls(line).keep_all(REQUEST, {0: ANSWER})
        await _reserve(RelayedBudget(line, None, None), Spend(60))
        assert client.budget.spent.tokens == 90


async def _reserve(budget: Budget, spend: Spend) -> None:
    async with budget.reserve(spend, "2") as reservation:
        reservation.actual = spend


async def test_calls_of_a_lost_worker_count_with_their_maximum(tmp_path: Path) -> None:
    async with relayed(tmp_path, Budget(max_tokens=100)) as (line, desk, client):
        call = asyncio.ensure_future(_never_ending(RelayedBudget(line, 100, None)))
        await asyncio.sleep(0.01)
        await desk.close()
        assert client.budget.spent.tokens == 60
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)


async def _never_ending(budget: Budget) -> None:
    async with budget.reserve(Spend(60), "1"):
        await asyncio.Event().wait()


@pytest.mark.parametrize(("name", "limits"), [("rpm", Limits(rpm=2)), ("tpm", Limits(tpm=2))])
async def test_rates_are_kept_for_all_workers_together(tmp_path: Path, name: str, limits: Limits) -> None:
    async with relayed(tmp_path, Budget(), limits) as (line, _, client):
        kept = client.dispatcher.endpoints["scripted:auto"]
        rates = {name: getattr(kept, name)}
        workers = [Endpoint("scripted:auto", AdaptiveLimiter(1.0, 1), None, **rates) for _ in range(2)]
        for worker in workers:
            relay_rates({"scripted:auto": worker}, line)
            rate = getattr(worker, name)
            assert isinstance(rate, RelayedRate) and rate.max_rate == rates[name].max_rate
            await rate.acquire()
        third = asyncio.ensure_future(rate.acquire())
        await asyncio.sleep(0.05)
        assert not third.done()
        third.cancel()


@pytest.mark.parametrize(("whole", "of"), [(7, 3), (2, 3), (64, 2)])
def test_parts_make_the_whole(whole: int, of: int) -> None:
    assert sum(part(whole, place, of) for place in range(of)) == whole


async def test_a_limiter_gives_back_what_it_is_not_to_have_any_more() -> None:
    limiter = AdaptiveLimiter(4.0, 4)
    ends = [asyncio.Event() for _ in range(4)]

    async def hold(end: asyncio.Event) -> None:
        async with limiter.place(0):
            await end.wait()

    holders = [asyncio.ensure_future(hold(end)) for end in ends]
    await asyncio.sleep(0)
    limiter.resize(2)
    shrunk = asyncio.ensure_future(limiter.shrunk_to(2))
    ends[0].set()
    await holders[0]
    assert not shrunk.done()
    ends[1].set()
    await asyncio.wait_for(shrunk, 5)
    assert (limiter.width, limiter.under_way) == (2.0, 2)
    for end in ends:
        end.set()
    await asyncio.gather(*holders)
