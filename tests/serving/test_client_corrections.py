"""Replies that break their format: the correction turn, the fallback parser, refusals and cuts, over HTTP."""

from __future__ import annotations

import pytest

from serving.journal.journal import Journal
from serving.protocol.messages import Message
from serving.protocol.reply import ReplyFormat
from serving.protocol.request import Failure, Reply
from serving.requests.client import ModelClient
from tests.serving.asks import FAULT, FORGIVING, PROMPT, WRONG, parse, said, turns, word_ask, words
from tests.serving.fake_server import FakeServer, Refuse, Say

OPENING = [(message.role, message.text) for message in PROMPT]


async def test_the_correction_quotes_the_fault_and_goes_on_with_the_conversation(
    server: FakeServer, client: ModelClient
) -> None:
    server.plan(Say((WRONG,)), Say((said("no"),)))
    (outcome,) = await client.ask(word_ask())
    assert isinstance(outcome, Reply)
    assert (outcome.value, outcome.text, outcome.fallback_fault) == ("no", said("no"), None)
    assert [call.fault for call in outcome.calls] == [FAULT, None]
    first, second = server.chats
    assert turns(first) == OPENING
    *opening, reply, correction = turns(second)
    assert opening == OPENING
    assert reply == ("assistant", WRONG)
    assert correction[0] == "user"
    assert FAULT in correction[1]
    assert second["structured_outputs"] == first["structured_outputs"]


async def test_the_correction_is_stored_and_replayed(
    server: FakeServer, client: ModelClient, journal: Journal
) -> None:
    server.plan(Say((WRONG,)), Say((said("no"),)))
    (first,) = await client.ask(word_ask())
    (again,) = await client.ask(word_ask())
    assert words([first, again]) == ["no", "no"]
    assert [call.key for call in again.calls] == [call.key for call in first.calls]
    assert all(call.replayed for call in again.calls)
    assert len(server.chats) == 2
    conversation = journal.conversation(again.calls[1].key)
    assert conversation[:3] == [*PROMPT, Message("assistant", WRONG)]
    assert conversation[-1] == Message("assistant", said("no"))


async def test_only_the_faulty_sample_is_corrected(server: FakeServer, client: ModelClient) -> None:
    server.plan(Say((said("yes"), WRONG, said("no"))), Say((said("no"),)))
    outcomes = await client.ask(word_ask(samples=(0, 1, 2)))
    assert words(outcomes) == ["yes", "no", "no"]
    assert [len(outcome.calls) for outcome in outcomes] == [1, 2, 1]
    assert [body.get("n", 1) for body in server.chats] == [3, 1]


async def test_a_reply_that_stays_wrong_takes_the_fallback(server: FakeServer, client: ModelClient) -> None:
    server.plan(Say((WRONG,)), Say(("no idea",)))
    (outcome,) = await client.ask(word_ask(reply=FORGIVING))
    assert isinstance(outcome, Reply)
    assert (outcome.value, outcome.text) == ("no", WRONG)
    assert outcome.fallback_fault == "the reply holds no JSON object"
    assert [call.fault for call in outcome.calls] == [FAULT, "the reply holds no JSON object"]


async def test_the_fallback_prefers_the_corrected_reply(server: FakeServer, client: ModelClient) -> None:
    server.plan(Say((WRONG,)), Say((f"still {WRONG}",)))
    (outcome,) = await client.ask(word_ask(reply=FORGIVING))
    assert isinstance(outcome, Reply)
    assert outcome.text == f"still {WRONG}"


async def test_two_wrong_replies_fail_and_are_asked_for_again_once_forgotten(
    server: FakeServer, client: ModelClient, journal: Journal
) -> None:
    server.plan(Say((WRONG,)), Say(("no idea",)))
    (outcome,) = await client.ask(word_ask())
    assert isinstance(outcome, Failure)
    assert outcome.error.error_class == "invalid_output"
    assert str(outcome.error) == f"{server.url}: the reply holds no JSON object"
    assert len(outcome.calls) == 2
    assert words(await client.ask(word_ask())) == ["invalid_output"]
    assert len(server.chats) == 2
    assert journal.forget_rejected() == 2
    assert words(await client.ask(word_ask())) == ["yes"]
    assert len(server.chats) == 3


async def test_a_correction_that_cannot_be_asked_for_keeps_the_first_reply(
    server: FakeServer, client: ModelClient, journal: Journal
) -> None:
    server.plan(Say((WRONG,)), Refuse(400, "maximum context length is 10 tokens"), Say((said("no"),)))
    (outcome,) = await client.ask(word_ask())
    assert isinstance(outcome, Failure)
    assert outcome.error.error_class == "context_length"
    assert [call.fault for call in outcome.calls] == [FAULT]
    assert journal.forget_rejected() == 0
    (again,) = await client.ask(word_ask())
    assert words([again]) == ["no"]
    assert [call.replayed for call in again.calls] == [True, False]


@pytest.mark.parametrize("position", [0, 1])
async def test_a_model_that_refuses_twice_casts_no_vote(
    server: FakeServer, client: ModelClient, journal: Journal, position: int
) -> None:
    refusals = tuple("I cannot." if index == position else None for index in range(3))
    server.plan(Say(refusals=refusals), Say(refusals=("I still cannot.",)))
    outcomes = await client.ask(word_ask(samples=(0, 1, 2)))
    assert words(outcomes) == ["refusal" if index == position else "yes" for index in range(3)]
    assert len(server.chats) == 2
    assert journal.forget_rejected() == 2


async def test_a_refusal_is_asked_about_once(server: FakeServer, client: ModelClient) -> None:
    server.plan(Say(refusals=("I cannot.",)), Say((said("no"),)))
    (outcome,) = await client.ask(word_ask())
    assert words([outcome]) == ["no"]
    *_, reply, correction = turns(server.chats[1])
    assert reply == ("assistant", "I cannot.")
    assert "the model refused to answer" in correction[1]


async def test_a_cut_reply_gets_one_correction(server: FakeServer, client: ModelClient) -> None:
    server.plan(Say(('{"word": "no", "because',), reasons=("length",)), Say((said("no"),)))
    (outcome,) = await client.ask(word_ask())
    assert words([outcome]) == ["no"]
    assert "cut off after 3 tokens" in str(outcome.calls[0].fault)
    assert "cut off after 3 tokens" in turns(server.chats[1])[-1][1]


async def test_a_format_may_allow_cuts(server: FakeServer, client: ModelClient) -> None:
    server.plan(Say(('{"word": "no"} and so on and',), reasons=("length",)))
    lenient = ReplyFormat("word", None, parse, may_be_cut=True)
    assert words(await client.ask(word_ask(reply=lenient))) == ["no"]
    assert len(server.chats) == 1
