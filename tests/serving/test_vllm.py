"""Against a real vLLM server: `EVIGRAPH_TEST_VLLM=vllm:NAME@http://HOST:8000/v1 pytest -m vllm`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from serving.backends import Backend, connect
from serving.journal.journal import Journal
from serving.protocol.errors import InvalidReply
from serving.protocol.messages import Message
from serving.protocol.model_name import parse_model_name
from serving.protocol.reply import ReplyFormat, first_json_object
from serving.protocol.request import Reply, Request
from serving.requests.client import ModelClient

pytestmark = pytest.mark.vllm

LABELS = ("essential", "not-essential")
IDS = tuple(str(number) for number in range(1, 9))
PROMPT = (
    Message("system", "You label sentences of a clinical note. Reply with JSON only."),
    Message(
        "user",
        "Why was the dose raised? Label each sentence as essential or not-essential.\n"
        + "\n".join(f"{id_}. The dose of drug {id_} was raised because the pain came back." for id_ in IDS),
    ),
)
SCHEMA = {
    "type": "object",
    "properties": {id_: {"type": "string", "enum": list(LABELS)} for id_ in IDS},
    "required": list(IDS),
    "additionalProperties": False,
}


def parse(text: str) -> dict[str, str]:
    labels = first_json_object(text)
    if tuple(labels) != IDS or not set(labels.values()) <= set(LABELS):
        raise InvalidReply("not one label for each sentence")
    return labels


def label_ask(samples: tuple[int, ...] = (0,), max_tokens: int = 300) -> Request[dict[str, str]]:
    reply = ReplyFormat("labels", SCHEMA, parse)
    return Request("label", "7", PROMPT, reply, samples, temperature=0.7, max_tokens=max_tokens)


@pytest.fixture
def backend() -> Backend:
    name = os.environ.get("EVIGRAPH_TEST_VLLM")
    assert name, "set EVIGRAPH_TEST_VLLM to a model string: vllm:NAME@http://HOST:8000/v1"
    return connect(parse_model_name(name))


@pytest.fixture
async def client(backend: Backend, journal: Journal) -> AsyncIterator[ModelClient]:
    client = ModelClient({"label": backend}, journal)
    yield client
    await client.aclose()


async def test_one_request_brings_three_label_maps(client: ModelClient) -> None:
    outcomes = await client.ask(label_ask((0, 1, 2)))
    replies = [outcome for outcome in outcomes if isinstance(outcome, Reply)]
    assert len(replies) == 3, outcomes
    assert all(tuple(reply.value) == IDS for reply in replies)
    calls = [reply.calls for reply in replies]
    assert [len(made) for made in calls] == [1, 1, 1]
    assert [made[0].input_tokens > 0 for made in calls] == [True, False, False]
    assert all(made[0].output_tokens > 0 for made in calls)


async def test_the_count_of_tokens_is_that_of_the_usage(backend: Backend, client: ModelClient) -> None:
    assert backend.count_tokens is not None
    (outcome,) = await client.ask(label_ask())
    assert outcome.calls[0].input_tokens == await backend.count_tokens(PROMPT)
    assert backend.context_length is not None
    assert (
        await client.room("label", PROMPT, backend.context_length)
        == backend.context_length - outcome.calls[0].input_tokens
    )


async def test_a_cut_reply_is_reported(client: ModelClient) -> None:
    (outcome,) = await client.ask(label_ask(max_tokens=5))
    assert outcome.calls[0].fault == "the reply was cut off after 5 tokens"
