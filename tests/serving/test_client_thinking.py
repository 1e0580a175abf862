"""A client's requests to models that think, and to models that refuse parts of a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from serving.backends import Backend
from serving.journal.journal import Journal
from serving.protocol.errors import CallError
from serving.protocol.limits import Limits
from serving.protocol.reply import ReplyFormat, free_text
from serving.protocol.request import Failure, Reply
from serving.requests.client import ModelClient
from serving.requests.probe import probe
from tests.serving.asks import WRONG, Connect, said, word_ask
from tests.serving.fake_server import FakeServer, Raw, Refuse, Say

CUT = Say(texts=("",), reasons=("length",))
VISIBLE = 40
FREE = ReplyFormat("free", None, free_text)
PROMPT_AT_MOST = 30
"""The upper estimate of the question's tokens."""


def failure(outcomes: Sequence[Reply[str] | Failure]) -> CallError:
    (outcome,) = outcomes
    assert isinstance(outcome, Failure)
    return outcome.error


def stored_thinking(journal: Journal, reply: Reply[str]) -> str:
    stored = journal.find(reply.calls[0].key)
    assert stored is not None
    return stored.thinking


async def test_a_reply_that_thinking_cut_off_is_requested_again_with_a_wider_limit(
    server: FakeServer, connect_client: Connect
) -> None:
    client = connect_client()
    server.plan(CUT, Say((said("yes"),)))
    (reply,) = await client.ask(word_ask(max_tokens=VISIBLE))
    assert isinstance(reply, Reply) and reply.value == "yes"
    assert [body["max_tokens"] for body in server.chats] == [VISIBLE, 4096 - PROMPT_AT_MOST]
    assert [len(body["messages"]) for body in server.chats] == [2, 2]
    assert [call.widened for call in reply.calls] == [False, True]
    assert client.usage.widened == 1 and client.usage.calls == 2


async def test_a_service_that_refuses_a_limit_which_thinking_used_up_gets_a_wider_one(
    server: FakeServer, connect_client: Connect
) -> None:
    refusal = Refuse(
        400, "Could not finish the message because max_tokens or model output limit was reached."
    )
    server.plan(refusal, Say((said("yes"),)))
    (reply,) = await connect_client().ask(word_ask(max_tokens=VISIBLE))
    assert isinstance(reply, Reply) and [call.widened for call in reply.calls] == [False, True]


async def test_a_widened_request_that_fails_keeps_its_first_call(
    server: FakeServer, connect_client: Connect
) -> None:
    server.plan(CUT, Refuse(400, "no such thing"))
    (outcome,) = await connect_client().ask(word_ask(max_tokens=VISIBLE))
    assert isinstance(outcome, Failure) and "no such thing" in str(outcome.error)
    assert [call.widened for call in outcome.calls] == [False]


async def test_room_beyond_the_context_window_is_asked_for_again_as_the_server_says(
    server: FakeServer, connect_client: Connect
) -> None:
    words = "This model's maximum context length is 4096 tokens: 3000 in the messages"
    server.plan(CUT, Refuse(400, words), Say((said("yes"),)))
    (reply,) = await connect_client().ask(word_ask(max_tokens=VISIBLE))
    assert isinstance(reply, Reply) and reply.value == "yes"
    assert [body["max_tokens"] for body in server.chats] == [VISIBLE, 4096 - PROMPT_AT_MOST, 1096]


async def test_a_reply_is_widened_once_and_then_fails_without_a_correction_turn(
    server: FakeServer, connect_client: Connect, journal: Journal
) -> None:
    server.plan(CUT, CUT)
    error = failure(await connect_client().ask(word_ask(max_tokens=VISIBLE)))
    assert error.error_class == "invalid_output" and "cut off" in str(error)
    assert len(server.chats) == 2
    assert journal.forget_rejected() == 2


async def test_the_correction_of_a_widened_reply_is_asked_for_as_any_other(
    server: FakeServer, client: ModelClient
) -> None:
    server.plan(CUT, Say((WRONG,)), Say((said("yes"),)))
    (reply,) = await client.ask(word_ask())
    assert isinstance(reply, Reply) and reply.value == "yes"
    assert [call.widened for call in reply.calls] == [False, True, False]


async def test_an_empty_cut_off_reply_is_never_replayed_as_a_reply(
    server: FakeServer, connect_client: Connect
) -> None:
    server.plan(CUT, Refuse(401), Say((said("yes"),)))
    with pytest.raises(CallError, match="access denied"):
        await connect_client().ask(word_ask())
    (reply,) = await connect_client().ask(word_ask())
    assert isinstance(reply, Reply) and reply.value == "yes"
    assert [call.replayed for call in reply.calls] == [True, False]
    assert len(server.chats) == 3


async def test_a_null_content_with_reasoning_is_a_cut_off_and_its_text_is_not_kept(
    server: FakeServer, connect_client: Connect, journal: Journal
) -> None:
    body = (
        b'{"model": "tiny", "usage": {"prompt_tokens": 8, "completion_tokens": 30}, "choices": [{"index": 0,'
        b' "finish_reason": "length", "message": {"content": null, "reasoning": "well, let me see"}}]}'
    )
    server.plan(Raw(body), Say((said("yes"),)), Raw(body), Say((said("yes"),)))
    (reply,) = await connect_client().ask(word_ask())
    assert isinstance(reply, Reply) and reply.calls[0].thinking_tokens == 30
    assert stored_thinking(journal, reply) == ""
    keeping = connect_client(limits=Limits(keep_thinking=True))
    (reply,) = await keeping.ask(word_ask(samples=(1,)))
    assert isinstance(reply, Reply)
    assert stored_thinking(journal, reply) == "well, let me see"


async def test_thinking_in_the_text_is_taken_off_before_parsing(
    server: FakeServer, connect_client: Connect
) -> None:
    server.plan(Say((f'<think>{{"word": "no"}}</think>{said("yes")}',)))
    (reply,) = await connect_client().ask(word_ask())
    assert isinstance(reply, Reply) and (reply.value, reply.text) == ("yes", said("yes"))
    assert reply.calls[0].thinking_tokens > 0


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("Unsupported value: 'temperature' does not support 0.7 with this model.", "temperature"),
        ("You are not allowed to request logprobs from this model", "logprobs"),
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "max_tokens"),
    ],
)
async def test_a_refused_part_is_dropped_for_the_rest_of_the_run(
    server: FakeServer, connect_client: Connect, message: str, field: str
) -> None:
    client = connect_client()
    server.plan(Refuse(400, message))
    for sample in (0, 1):
        (reply,) = await client.ask(word_ask(samples=(sample,), logprobs=True))
        assert isinstance(reply, Reply)
    assert [field in body for body in server.chats] == [True, False, False]
    # The key is from the original request.
    assert len({call.key for call in reply.calls}) == 1


async def test_samples_are_asked_for_one_by_one_once_several_are_refused(
    server: FakeServer, connect_client: Connect
) -> None:
    server.plan(Refuse(400, "Multiple candidates is not enabled for this model"))
    replies = await connect_client().ask(word_ask(samples=(0, 1, 2)))
    assert all(isinstance(reply, Reply) for reply in replies)
    assert [body.get("n", 1) for body in server.chats] == [3, 1, 1, 1]


async def test_an_effort_is_part_of_the_key_as_requested_and_mapped_for_the_server(
    server: FakeServer, connect_client: Connect, backend: Backend
) -> None:
    server.plan(Say((said("yes"),)), Refuse(400, "Unsupported value: 'minimal' for reasoning_effort"))
    (plain,) = await connect_client().ask(word_ask())
    (low,) = await connect_client(backend=backend.at_effort("minimal")).ask(word_ask())
    assert isinstance(plain, Reply) and isinstance(low, Reply)
    assert plain.calls[0].key != low.calls[0].key
    switches = [body.get("chat_template_kwargs", {}).get("enable_thinking") for body in server.chats]
    assert switches == [None, True, False]
    assert (low.calls[0].effort, plain.calls[0].effort) == ("minimal", None)
    (sentence,) = backend.abilities.not_sent
    assert sentence.startswith("effort minimal not sent, but off: this model takes off, low")


UNTAGGED = Say(("well, let me see " * VISIBLE,), reasons=("length",))
"""Of a chat template that opens the tag: its end, which is all that shows, comes after the limit."""


async def test_thinking_that_was_cut_off_without_a_tag_is_no_reply(
    server: FakeServer, connect_client: Connect
) -> None:
    client = connect_client()
    server.plan(Say((f"so be it</think>{said('no')}",)))
    await client.ask(word_ask(samples=(1,)))
    server.plan(UNTAGGED, Say((f"so be it</think>{said('yes')}",)))
    (reply,) = await client.ask(word_ask(reply=replace(FREE, may_be_cut=True)))
    assert isinstance(reply, Reply) and reply.value == said("yes")
    assert [call.widened for call in reply.calls] == [False, True]


@pytest.mark.parametrize(
    ("tokens", "thinks"),
    [(["<user>", "ready", "<think>"], True), (["<user>", "ready", "<think>", "</think>"], False)],
)
async def test_a_chat_template_that_opens_the_thinking_shows_before_the_first_request(
    server: FakeServer, backend: Backend, tokens: list[str], thinks: bool
) -> None:
    server.tokenize = {"count": len(tokens), "token_strs": tokens}
    able, findings = await probe(backend)
    assert findings.thinks == able.abilities.thinks == thinks
    assert findings.logprobs != thinks
