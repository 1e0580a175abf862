"""Servers whose token counts cannot be used: they are estimated, marked, and the budget holds."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from serving.journal.journal import Journal
from serving.protocol.errors import CallError
from serving.protocol.messages import UNKNOWN, max_prompt_tokens, token_count
from serving.protocol.model_name import ModelName
from serving.protocol.request import Failure
from tests.serving.asks import PROMPT, Connect, Reach, word_ask
from tests.serving.fake_server import MODEL, FakeServer
from tests.serving.hosted_models import answers, call, point_at
from tests.serving.hosted_server import HostedServer, anthropic_text, completion, google_reply

ABSURD: dict[str, Any] = {
    "missing": None,
    "empty": {},
    "a list": [],
    "a text": "12",
    "negative": {"prompt_tokens": -5, "completion_tokens": -7},
    "zero": {"prompt_tokens": 0, "completion_tokens": 0},
    "10^30": {"prompt_tokens": 10**30, "completion_tokens": 10**30},
    "1e308": {"prompt_tokens": 1e308, "completion_tokens": 1e308},
    "2^63-1": {"prompt_tokens": 2**63 - 1, "completion_tokens": 2**63 - 1},
    "NaN": {"prompt_tokens": float("nan"), "completion_tokens": float("nan")},
    "strings": {"prompt_tokens": "12", "completion_tokens": "5"},
    "booleans": {"prompt_tokens": True, "completion_tokens": True},
    "lists": {"prompt_tokens": [12], "completion_tokens": [5]},
    "a fraction": {"prompt_tokens": 0.5, "completion_tokens": 1.5},
}
READ = max_prompt_tokens(PROMPT)


@pytest.fixture(params=ABSURD)
def liar(server: FakeServer, request: pytest.FixtureRequest) -> FakeServer:
    server.usage = ABSURD[request.param]
    return server


async def test_an_absurd_count_is_replaced_by_an_estimate_that_is_marked_and_told_once(
    liar: FakeServer,
    connect_client: Connect,
    reach: Reach,
    journal: Journal,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = connect_client(backend=reach(ModelName("openai", MODEL, liar.url)))
    with caplog.at_level(logging.INFO, "evigraph.serving"):
        for number in range(3):
            (reply,) = await client.ask(word_ask(case_id=f"{number}", samples=(number,)))
            assert not isinstance(reply, Failure)
            (record,) = reply.calls
            assert (record.input_tokens, record.output_tokens, record.estimated) == (READ, 5, True)
    assert client.usage.estimated == 3
    assert (client.usage.input_tokens, client.usage.output_tokens) == (3 * READ, 15)
    assert list(journal.tokens().values()) == [(3 * READ, 15, 0)]
    assert [liar.url in message for message in caplog.messages if "token counts" in message] == [True]


@pytest.mark.parametrize(
    ("provider", "reply"),
    [
        ("openai", completion({"content": "yes"}, usage={"prompt_tokens": -5, "completion_tokens": -7})),
        (
            "deepseek",
            completion({"content": "yes"}, usage={"prompt_tokens": 10**30, "completion_tokens": -1}),
        ),
        ("google_genai", google_reply("yes")),
        ("anthropic", anthropic_text("yes")),
    ],
)
async def test_services_are_not_believed_either(
    hosted: HostedServer, monkeypatch: pytest.MonkeyPatch, provider: str, reply: Any
) -> None:
    point_at(hosted, monkeypatch)
    for name, field in (("google_genai", "usageMetadata"), ("anthropic", "usage")):
        if provider == name:
            reply.body[field] = {key: -abs(value) - 1 for key, value in reply.body[field].items()}
    hosted.default = reply
    (answer,) = await answers(provider, call())
    assert answer.estimated
    assert answer.input_tokens == READ and 0 < answer.output_tokens < 10


@pytest.mark.parametrize("value", [0, 1, 12.0, 100_000_000])
def test_a_number_of_tokens(value: float) -> None:
    assert token_count(value) == value


@pytest.mark.parametrize("value", [-1, 100_000_001, 0.5, float("inf"), "1", None, True, False, [], {}])
def test_no_number_of_tokens(value: object) -> None:
    assert token_count(value) == UNKNOWN


@pytest.mark.parametrize("count", [-1, "x", True, 10**30, None])
async def test_an_absurd_tokenizer_is_a_failure(server: FakeServer, reach: Reach, count: object) -> None:
    server.tokenize = {"count": count}
    backend = reach(ModelName("vllm", MODEL, server.url))
    assert backend.count_tokens is not None
    with pytest.raises(CallError, match="token count is not a number"):
        await backend.count_tokens(PROMPT)


@pytest.mark.parametrize("length", [True, -1, 0, 10**30, float("nan")])
def test_an_absurd_context_is_unknown(server: FakeServer, reach: Reach, length: object) -> None:
    server.models = {"data": [{"id": MODEL, "max_model_len": length}]}
    assert reach(ModelName("vllm", MODEL, server.url)).context_length is None
