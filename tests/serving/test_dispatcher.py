"""One model on two real servers: who is asked, who takes over, and at what rate."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tenacity.wait import wait_fixed

from serving.backends import Backend
from serving.protocol.limits import Limits
from serving.protocol.messages import Message, max_prompt_tokens
from serving.protocol.model_name import ModelName
from serving.protocol.request import Reply, Request
from serving.requests.client import ModelClient
from serving.requests.dispatcher import choose, prefix_of
from tests.serving.asks import PROMPT, Connect, Reach, said, word_ask, words
from tests.serving.fake_server import MODEL, FakeServer, Refuse, Say


@pytest.fixture
def other() -> Iterator[FakeServer]:
    server = FakeServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def both(server: FakeServer, other: FakeServer, reach: Reach) -> Backend:
    return reach(ModelName("vllm", MODEL, f"{server.url},{other.url}"))


def of_case(number: int) -> Request[str]:
    return word_ask(case_id=str(number), messages=(PROMPT[0], Message("user", f"Question {number}?")))


async def server_of(client: ModelClient, ask: Request[str]) -> str:
    (outcome,) = await client.ask(ask)
    assert isinstance(outcome, Reply)
    return outcome.calls[-1].server


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not true():  # noqa: ASYNC110 - without an event to wait for
            await asyncio.sleep(0.01)


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.requests.endpoint._FIRST_LOOK_S", 0.01)


async def test_cases_spread_over_both_servers_and_reflections_follow_their_vote(
    server: FakeServer, other: FakeServer, both: Backend, connect_client: Connect
) -> None:
    client = connect_client(backend=both)
    used = set()
    for number in range(20):
        vote = of_case(number)
        first = await server_of(client, vote)
        turns = (Message("assistant", said("yes")), Message("user", "Are you sure?"))
        reflection = replace(vote, role="reflect", messages=(*vote.messages, *turns))
        assert await server_of(client, reflection) == first
        used.add(first)
    assert used == {server.url, other.url}


async def test_cases_with_one_beginning_do_not_fill_one_server(
    server: FakeServer, other: FakeServer, both: Backend, connect_client: Connect
) -> None:
    client = connect_client(backend=both)
    for number in range(20):
        await server_of(client, word_ask(case_id=str(number), max_tokens=40 + number))
    assert {len(server.chats), len(other.chats)} <= set(range(7, 14))


async def test_cases_that_have_ended_are_no_load(
    server: FakeServer, other: FakeServer, both: Backend, connect_client: Connect
) -> None:
    client = connect_client(backend=both)
    used = set()
    for number in range(10):
        used.add(await server_of(client, word_ask(case_id=str(number), max_tokens=40 + number)))
        client.forget(str(number))
    assert len(used) == 1


async def test_a_server_that_stops_is_taken_over_at_once_and_comes_back(
    server: FakeServer,
    other: FakeServer,
    both: Backend,
    connect_client: Connect,
    quick_looks: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "evigraph")
    # An attempt after a pause would come too late.
    monkeypatch.setattr("serving.requests.dispatcher._BACKOFF", wait_fixed(600))
    client = connect_client(backend=both)
    numbers = {await server_of(client, of_case(number)): number for number in range(20)}
    client.forget(str(numbers[server.url]))
    server.stop()
    again = replace(of_case(numbers[server.url]), max_tokens=41)
    async with asyncio.timeout(120):
        assert await server_of(client, again) == other.url
    assert client.dispatcher.endpoints[server.url].down
    server.start()
    await until(lambda: not client.dispatcher.endpoints[server.url].down)
    away, back = caplog.messages
    assert away.startswith(f"{server.url} is away: ")
    assert back.startswith(f"{server.url} is back after ")
    client.forget(again.case_id)
    assert await server_of(client, replace(again, max_tokens=42)) == server.url


async def test_with_all_servers_away_the_first_to_return_gets_the_request(
    server: FakeServer, other: FakeServer, both: Backend, connect_client: Connect
) -> None:
    client = connect_client(backend=both)
    for one in (server, other):
        one.stop()
    asked = asyncio.create_task(client.ask(word_ask()))
    await until(lambda: all(endpoint.down for endpoint in client.dispatcher.endpoints.values()))
    other.start()
    assert words(await asked) == ["yes"]
    assert (len(server.chats), len(other.chats)) == (0, 1)


async def test_a_server_that_was_not_up_at_the_start_is_used_once_it_is(
    server: FakeServer, other: FakeServer, reach: Reach, connect_client: Connect, quick_looks: None
) -> None:
    other.stop()
    client = connect_client(backend=reach(ModelName("vllm", MODEL, f"{server.url},{other.url}")))
    assert {await server_of(client, of_case(number)) for number in range(10)} == {server.url}
    other.start()
    await until(lambda: not client.dispatcher.endpoints[other.url].down)
    assert other.url in {await server_of(client, of_case(number)) for number in range(10, 30)}


async def test_a_rate_limit_closes_its_server_to_all_until_the_named_time(
    server: FakeServer, backend: Backend, connect_client: Connect
) -> None:
    client = connect_client(backend=backend)
    server.plan(Refuse(429, retry_after="0.5"))
    started = time.monotonic()
    first = asyncio.create_task(client.ask(word_ask()))
    await until(lambda: client.dispatcher.endpoints[server.url].limiter.cuts == 1)
    await client.ask(of_case(2))
    assert time.monotonic() - started >= 0.5
    assert words(await first) == ["yes"]


@pytest.mark.parametrize(("rpm", "requests", "least_s"), [(3, 6, 0.9), (60, 6, 0.0)])
async def test_requests_a_minute_are_honoured(
    server: FakeServer,
    backend: Backend,
    connect_client: Connect,
    monkeypatch: pytest.MonkeyPatch,
    rpm: int,
    requests: int,
    least_s: float,
) -> None:
    monkeypatch.setattr("serving.requests.endpoint._MINUTE_S", 1.0)
    client = connect_client(limits=Limits(rpm=rpm))
    started = time.monotonic()
    await asyncio.gather(*(client.ask(of_case(number)) for number in range(requests)))
    assert time.monotonic() - started >= least_s
    assert len(server.chats) == requests


async def test_tokens_a_minute_count_prompt_and_token_limit(
    server: FakeServer, connect_client: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.requests.endpoint._MINUTE_S", 1.0)
    one = max_prompt_tokens(of_case(1).messages) + 3 * 40
    client = connect_client(limits=Limits(tpm=2 * one))
    started = time.monotonic()
    await asyncio.gather(*(client.ask(replace(of_case(n), samples=(0, 1, 2))) for n in range(4)))
    assert time.monotonic() - started >= 0.9


async def test_the_user_sets_how_many_connections_there_are(
    server: FakeServer, connect_client: Connect
) -> None:
    server.default = Say(seconds=0.03)
    client = connect_client(limits=Limits(max_connections=2, start_connections=5))
    await asyncio.gather(*(client.ask(of_case(number)) for number in range(12)))
    assert server.peak == 2


ADDRESSES = [f"http://10.0.0.{number}:8000/v1" for number in range(1, 5)]
PREFIXES = [f"prefix {number}" for number in range(400)]


def idle(*addresses: str) -> dict[str, int]:
    return dict.fromkeys(addresses, 0)


@pytest.mark.parametrize("position", [0, 1])
def test_another_beginning_is_another_prefix(position: int) -> None:
    other = list(PROMPT)
    other[position] = Message("user", "Another one.")
    assert prefix_of(other) != prefix_of(PROMPT)


def test_the_same_prefix_goes_to_the_same_server_whatever_the_order_of_servers() -> None:
    for prefix in PREFIXES[:50]:
        assert choose(prefix, idle(*ADDRESSES)) == choose(prefix, idle(*reversed(ADDRESSES)))


def test_prefixes_spread_over_all_servers() -> None:
    counts = Counter(choose(prefix, idle(*ADDRESSES)) for prefix in PREFIXES)
    assert all(60 <= counts[address] <= 140 for address in ADDRESSES)


def test_only_the_conversations_of_a_server_that_goes_move() -> None:
    gone, *left = ADDRESSES
    for prefix in PREFIXES:
        before, after = choose(prefix, idle(*ADDRESSES)), choose(prefix, idle(*left))
        assert after == before or before == gone


@given(st.text(), st.lists(st.integers(0, 1000), min_size=1, max_size=8))
def test_the_choice_is_never_among_the_fullest_beyond_the_bound(prefix: str, numbers: list[int]) -> None:
    loads = {f"http://{index}": number for index, number in enumerate(numbers)}
    chosen = choose(prefix, loads)
    assert loads[chosen] < 1.25 * (sum(numbers) + 1) / len(numbers) + 1
