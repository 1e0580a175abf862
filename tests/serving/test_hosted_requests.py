"""What a hosted model's LangChain client sends; its address is set to a server on loopback."""

from __future__ import annotations

import pytest

from serving.backends import connect
from serving.client import ModelClient
from serving.journal import Journal
from serving.model_name import ModelName
from tests.serving.asks import PROMPT_WORDS, SCHEMA, said, word_ask, words
from tests.serving.fake_server import MODEL, FakeServer, Refuse, Say


@pytest.fixture
def hosted(server: FakeServer, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> ModelClient:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    return ModelClient({"label": connect(ModelName("openai", MODEL))}, journal)


async def test_a_hosted_model_gets_the_schema_and_no_seed(server: FakeServer, hosted: ModelClient) -> None:
    assert words(await hosted.ask(word_ask(samples=(0, 1)))) == ["yes", "yes"]
    (body,) = server.chats
    assert (body["n"], body["temperature"], body["max_completion_tokens"]) == (2, 0.7, 40)
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert "seed" not in body


async def test_the_usage_of_a_hosted_request_is_counted_once(server: FakeServer, hosted: ModelClient) -> None:
    server.plan(Say((said("yes"), said("no") + " as far as I know"), cached_tokens=3))
    outcomes = await hosted.ask(word_ask(samples=(0, 1)))
    assert [outcome.calls[0].input_tokens for outcome in outcomes] == [PROMPT_WORDS, 0]
    assert [outcome.calls[0].output_tokens for outcome in outcomes] == [5, 4]
    assert [outcome.calls[0].cached_tokens for outcome in outcomes] == [3, 0]


async def test_a_hosted_model_is_asked_again_by_our_loop_only(
    server: FakeServer, hosted: ModelClient
) -> None:
    server.default = Refuse(429, retry_after="0.01")
    assert words(await hosted.ask(word_ask())) == ["rate_limit"]
    assert len(server.chats) == 5
