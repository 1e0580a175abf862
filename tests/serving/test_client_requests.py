"""Attempts, retries, samples and the limit of an endpoint, over HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from serving.backends import Backend
from serving.journal.journal import Journal, JournalError
from serving.protocol.budget import Budget, BudgetSpent, Price
from serving.protocol.limits import Limits
from serving.protocol.messages import Message
from serving.protocol.model_name import ROLES, ModelName, Role
from serving.protocol.request import Failure, Reply
from serving.requests.client import ModelClient
from tests.serving.asks import PROMPT, PROMPT_WORDS, Connect, Reach, said, word_ask, words
from tests.serving.fake_server import CONTEXT_FULL, MODEL, FakeServer, Refuse, Say


def test_a_part_of_a_request_is_the_request_for_those_samples() -> None:
    whole = word_ask(samples=(0, 1, 2))
    assert whole.part((1,)) == word_ask(samples=(1,))
    assert whole.part((1,)).key(1) == word_ask(samples=(1,)).key(1)
    assert whole.part((0, 1, 2)) is whole


async def test_a_busy_server_is_asked_again_after_the_time_that_it_names(
    server: FakeServer, client: ModelClient
) -> None:
    server.plan(Refuse(429, retry_after="0.3"), Refuse(503, retry_after="0.3"), Say((said("no"),)))
    started = time.perf_counter()
    (outcome,) = await client.ask(word_ask())
    assert time.perf_counter() - started >= 0.6
    assert isinstance(outcome, Reply)
    assert outcome.value == "no"
    assert outcome.calls[0].retries == 2
    assert len(server.chats) == 3


async def test_a_server_cannot_ask_for_an_endless_pause(
    server: FakeServer, client: ModelClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.requests.dispatcher.MAX_WAIT_S", 0.01)
    server.plan(Refuse(429, retry_after="86400"), Say((said("no"),)))
    (outcome,) = await asyncio.wait_for(client.ask(word_ask()), timeout=120)
    assert isinstance(outcome, Reply)


@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_max_retries_counts_what_follows_the_first_attempt(
    server: FakeServer, connect_client: Connect, retries: int
) -> None:
    server.default = Refuse(429, "slow down", retry_after="0.01")
    (outcome,) = await connect_client(retries).ask(word_ask())
    assert isinstance(outcome, Failure)
    assert outcome.error.error_class == "rate_limit"
    assert "slow down" in str(outcome.error)
    assert outcome.calls == ()
    assert len(server.chats) == retries + 1


@pytest.mark.parametrize(
    ("act", "error_class"),
    [(CONTEXT_FULL, "context_length"), (Refuse(400, "bad"), "internal"), (Refuse(404, "no"), "internal")],
)
async def test_what_would_fail_again_is_not_retried(
    server: FakeServer, client: ModelClient, act: Refuse, error_class: str
) -> None:
    server.plan(act)
    assert words(await client.ask(word_ask())) == [error_class]
    assert len(server.chats) == 1


async def test_the_stored_reply_is_found_at_another_address_and_by_another_role(
    server: FakeServer, client: ModelClient, journal: Journal, reach: Reach
) -> None:
    await client.ask(word_ask())
    moved = FakeServer()
    moved.start()
    try:
        elsewhere = ModelClient({"reflect": reach(ModelName("vllm", MODEL, moved.url))}, journal)
        assert words(await elsewhere.ask(word_ask(role="reflect"))) == ["yes"]
        assert moved.chats == []
    finally:
        moved.stop()


async def test_only_the_missing_sample_is_asked_for(server: FakeServer, client: ModelClient) -> None:
    server.plan(Say((said("yes"),)), Say((said("no"),)))
    await client.ask(word_ask(samples=(0, 2)))
    outcomes = await client.ask(word_ask(samples=(0, 1, 2)))
    assert words(outcomes) == ["yes", "no", "yes"]
    assert [body.get("n", 1) for body in server.chats] == [2, 1]
    assert [outcome.calls[0].sample for outcome in outcomes] == [0, 1, 2]
    assert [outcome.calls[0].replayed for outcome in outcomes] == [True, False, True]


async def test_a_provider_of_single_samples_gets_a_request_for_each(
    server: FakeServer, backend: Backend, connect_client: Connect
) -> None:
    client = connect_client(backend=replace(backend, many_samples=False))
    assert words(await client.ask(word_ask(samples=(0, 1, 2)))) == ["yes"] * 3
    assert ["n" in body for body in server.chats] == [False] * 3
    assert (client.usage.input_tokens, client.usage.output_tokens) == (3 * PROMPT_WORDS, 3 * 2)


async def test_one_failed_request_leaves_the_other_samples(
    server: FakeServer, backend: Backend, connect_client: Connect, journal: Journal
) -> None:
    client = connect_client(0, replace(backend, many_samples=False, max_connections=1))
    server.plan(Say(), Refuse(400, "no such thing"), Say())
    outcomes = await client.ask(word_ask(samples=(0, 1, 2)))
    assert sorted(words(outcomes)) == ["internal", "yes", "yes"]
    assert journal.count() == 2
    assert words(await client.ask(word_ask(samples=(0, 1, 2)))) == ["yes"] * 3
    assert len(server.chats) == 4


async def test_a_sample_that_the_server_left_out_fails_alone(server: FakeServer, client: ModelClient) -> None:
    server.plan(Say(choices=2))
    outcomes = await client.ask(word_ask(samples=(0, 1, 2)))
    assert words(outcomes) == ["yes", "yes", "internal"]
    assert words(await client.ask(word_ask(samples=(0, 1, 2)))) == ["yes"] * 3
    assert [body.get("n", 1) for body in server.chats] == [3, 1]


async def test_the_usage_of_a_request_is_counted_once(server: FakeServer, client: ModelClient) -> None:
    server.plan(Say((said("yes"), said("no") + " as far as I know", said("no")), cached_tokens=3))
    outcomes = await client.ask(word_ask(samples=(0, 1, 2)))
    calls = [call for outcome in outcomes for call in outcome.calls]
    assert [call.input_tokens for call in calls] == [PROMPT_WORDS, 0, 0]
    assert [call.cached_tokens for call in calls] == [3, 0, 0]
    assert [call.output_tokens for call in calls] == [5, 3, 3]
    assert (client.usage.input_tokens, client.usage.output_tokens) == (PROMPT_WORDS, 11)


async def test_replayed_calls_are_not_counted_as_made(client: ModelClient) -> None:
    await client.ask(word_ask())
    before = replace(client.usage)
    await client.ask(word_ask())
    assert client.usage == replace(before, replayed=1)
    assert before.replayed == 0


async def test_an_endpoint_has_one_limit_for_all_its_roles(
    server: FakeServer, backend: Backend, journal: Journal, reach: Reach
) -> None:
    server.default = Say(seconds=0.03)
    other = reach(ModelName("vllm", "other", server.url))
    client = ModelClient(
        {"label": replace(backend, max_connections=3), "answer": replace(other, max_connections=3)}, journal
    )
    roles: tuple[Role, Role] = ("label", "answer")
    asks = [
        word_ask(role=role, messages=(*PROMPT, Message("user", str(number))))
        for number in range(20)
        for role in roles
    ]
    outcomes = await asyncio.gather(*(client.ask(ask) for ask in asks))
    assert [words(outcome) for outcome in outcomes] == [["yes"]] * 40
    assert server.peak == 3


async def test_a_wait_for_another_attempt_holds_no_slot(
    server: FakeServer, backend: Backend, connect_client: Connect
) -> None:
    client = connect_client(backend=replace(backend, max_connections=1))
    # A rate limit would close the server to all.
    server.plan(Refuse(503, retry_after="300"))
    waiting = asyncio.create_task(client.ask(word_ask()))
    async with asyncio.timeout(120):
        while not server.chats:  # noqa: ASYNC110 - the server runs in another thread
            await asyncio.sleep(0.01)
        assert words(await client.ask(word_ask(messages=(Message("user", "Another one."),)))) == ["yes"]
    assert len(server.chats) == 2 and not waiting.done()
    waiting.cancel()


async def test_calls_wait_for_a_server_that_comes_back(server: FakeServer, connect_client: Connect) -> None:
    client = connect_client(limits=Limits(max_outage=120))
    server.stop()
    asked = [asyncio.create_task(client.ask(word_ask(samples=(number,)))) for number in range(3)]
    await asyncio.sleep(0.3)
    server.start()
    assert [words(await one) for one in asked] == [["yes"]] * 3


async def test_after_the_longest_outage_calls_fail_and_say_why(
    server: FakeServer, connect_client: Connect
) -> None:
    client = connect_client(limits=Limits(max_outage=0.2))
    server.stop()
    (outcome,) = await client.ask(word_ask())
    assert isinstance(outcome, Failure)
    assert outcome.error.error_class == "connection"
    assert str(outcome.error).startswith(f"{server.url}: away for more than 0.2 s: {server.url}: ")
    assert "\n" not in str(outcome.error)


async def test_an_outage_that_was_too_long_is_not_waited_for_again(
    server: FakeServer, connect_client: Connect
) -> None:
    client = connect_client(limits=Limits(max_outage=600))
    server.stop()
    first = asyncio.create_task(client.ask(word_ask()))
    endpoint = client.dispatcher.endpoints[server.url]
    async with asyncio.timeout(120):
        while not endpoint.down:  # noqa: ASYNC110 - without an event to wait for
            await asyncio.sleep(0.01)
        for _ in range(20):
            # The first request learns of it and begins to wait, within a few turns of the loop.
            await asyncio.sleep(0)
        endpoint._down_since -= 600
        assert words(await client.ask(word_ask())) == ["connection"]
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


async def test_a_dead_engine_behind_a_live_server_gets_no_requests_until_it_is_well(
    server: FakeServer, connect_client: Connect
) -> None:
    client = connect_client(limits=Limits(max_outage=0.2))
    server.health_status = 503
    server.plan(Refuse(500, "EngineDeadError"))
    assert words(await client.ask(word_ask())) == ["connection"]
    assert words(await client.ask(word_ask())) == ["connection"]
    assert len(server.chats) == 1
    server.health_status = 200
    for _ in range(600):
        await asyncio.sleep(0.1)
        if words(await client.ask(word_ask())) == ["yes"]:
            return
    pytest.fail("it was never asked again")


@pytest.mark.slow
async def test_a_server_that_lets_requests_time_out_must_answer_a_word_first(
    server: FakeServer, connect_client: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.requests.dispatcher._WORD_S", 0.1)
    client = connect_client(limits=Limits(max_retries=2, timeout=0.1, max_outage=0.2))
    server.default = Say(seconds=1.0)
    assert words(await client.ask(word_ask())) == ["timeout"]
    asked = len(server.chats)
    assert words(await client.ask(word_ask())) == ["timeout"]
    assert [body["max_tokens"] for body in server.chats[asked:]] == [1] * (len(server.chats) - asked)


async def test_room_that_is_plainly_enough_needs_no_tokenizer(
    server: FakeServer, client: ModelClient
) -> None:
    room = await client.room("label", PROMPT, 1000)
    assert room is not None and 1000 <= room < 4096 - PROMPT_WORDS
    assert "/tokenize" not in [request.path for request in server.received]


async def test_room_is_unknown_where_nobody_can_count(
    server: FakeServer, backend: Backend, connect_client: Connect
) -> None:
    for unknown in (replace(backend, context_length=None), replace(backend, count_tokens=None)):
        assert await connect_client(backend=unknown).room("label", PROMPT, 4096) is None
    server.stop()
    assert await connect_client().room("label", PROMPT, 4096) is None


@pytest.mark.parametrize("answer", ["<html>", {"tokens": []}, {"count": None}, [1, 2]])
async def test_room_is_unknown_where_the_tokenizer_answers_something_else(
    server: FakeServer, client: ModelClient, answer: object
) -> None:
    server.tokenize = answer
    assert await client.room("label", PROMPT, 4096) is None


async def test_a_journal_that_cannot_be_written_ends_the_run(
    client: ModelClient, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(requests: Sequence[object]) -> None:
        raise JournalError("disk full")

    monkeypatch.setattr(journal, "_store", full)
    with pytest.raises(JournalError, match="disk full"):
        await client.ask(word_ask())


async def test_log_probabilities_are_stored_and_replayed(server: FakeServer, client: ModelClient) -> None:
    outcomes = [await client.ask(word_ask(logprobs=True)) for _ in range(2)]
    first, again = [outcome for (outcome,) in outcomes if isinstance(outcome, Reply)]
    assert [token.token for token in first.logprobs] == said("yes").split()
    assert first.logprobs[1].top[1] == ("?", -9.5)
    assert again.logprobs == first.logprobs and again.calls[0].replayed
    (body,) = server.chats
    assert (body["logprobs"], body["top_logprobs"]) == (True, 5)


async def test_a_provider_without_log_probabilities_is_not_asked_for_them(
    server: FakeServer, backend: Backend, connect_client: Connect
) -> None:
    client = connect_client(backend=replace(backend, logprobs=False))
    assert words(await client.ask(word_ask(logprobs=True))) == ["yes"]
    assert "logprobs" not in server.chats[0]


async def test_a_reply_of_another_model_is_a_failure(server: FakeServer, client: ModelClient) -> None:
    server.plan(Say(model="other"))
    assert words(await client.ask(word_ask())) == ["internal"]
    assert len(server.chats) == 1


@pytest.mark.parametrize("takes_seed", [True, False])
async def test_a_seed_is_sent_only_where_it_is_taken(
    server: FakeServer, backend: Backend, connect_client: Connect, takes_seed: bool
) -> None:
    await connect_client(backend=replace(backend, takes_seed=takes_seed)).ask(word_ask())
    assert server.chats[0].get("seed") == (5 if takes_seed else None)


async def test_the_cost_is_that_of_fresh_cached_and_written_tokens(
    server: FakeServer, backend: Backend, journal: Journal
) -> None:
    prices = {f"vllm:{MODEL}": Price(input=1_000_000, output=100_000, cached_input=0)}
    client = ModelClient(dict.fromkeys(ROLES, backend), journal, prices=prices)
    server.plan(Say(cached_tokens=3))
    for _ in range(2):
        await client.ask(word_ask())
    assert client.usage.cost == pytest.approx((PROMPT_WORDS - 3) + 2 * 0.1)
    await client.aclose()


async def test_a_call_that_might_break_the_budget_is_not_sent(
    server: FakeServer, backend: Backend, journal: Journal
) -> None:
    client = ModelClient(dict.fromkeys(ROLES, backend), journal, budget=Budget(max_tokens=100))
    with pytest.raises(BudgetSpent):
        await client.ask(word_ask(max_tokens=90))
    assert server.chats == []
    assert words(await client.ask(word_ask(max_tokens=40))) == ["yes"]
    assert client.budget.spent.tokens == PROMPT_WORDS + 2
    await client.aclose()


async def test_a_replayed_call_uses_nothing_of_the_budget(
    server: FakeServer, backend: Backend, journal: Journal
) -> None:
    client = ModelClient(dict.fromkeys(ROLES, backend), journal, budget=Budget(max_tokens=100))
    await client.ask(word_ask())
    client.budget.max_tokens = 0
    assert words(await client.ask(word_ask())) == ["yes"]
    await client.aclose()
