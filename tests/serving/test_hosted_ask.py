"""From a question to a parsed reply with each provider: probe, client, journal, correction turn."""

from __future__ import annotations

import json

import pytest

from serving.ask import Reply
from serving.client import ModelClient
from serving.journal import Journal
from serving.model_name import ROLES
from serving.probe import probe
from tests.serving.asks import said, word_ask, words
from tests.serving.hosted_models import Connected, point_at
from tests.serving.hosted_server import (
    HostedServer,
    Http,
    anthropic_text,
    anthropic_tool,
    completion,
    function_call,
    google_reply,
)

ZEBRA = '{"word": "zebra-17"}'
"""What the probe wants to see."""

SERVICES = {
    "openai": (
        [completion({"content": ZEBRA}, {"content": ZEBRA})] + [completion({"content": "letters"})] * 2,
        [completion({"content": said("perhaps")}, {"content": said("no")})],
        completion({"content": said("yes")}),
    ),
    "anthropic": (
        [anthropic_text(ZEBRA)],
        [anthropic_text(said("perhaps")), anthropic_text(said("no"))],
        anthropic_text(said("yes")),
    ),
    "google_genai": (
        [google_reply(ZEBRA, ZEBRA), google_reply("letters"), google_reply("letters")],
        [google_reply(said("perhaps"), said("no"))],
        google_reply(said("yes")),
    ),
    "deepseek": (
        [completion(function_call(ZEBRA))],
        [completion(function_call(said("perhaps"))), completion(function_call(said("no")))],
        completion(function_call(said("yes"))),
    ),
}


@pytest.mark.parametrize("provider", SERVICES)
async def test_a_provider_answers_and_mends_a_reply(
    hosted: HostedServer, monkeypatch: pytest.MonkeyPatch, journal: Journal, provider: str
) -> None:
    point_at(hosted, monkeypatch)
    probed, first, mended = SERVICES[provider]
    async with Connected(provider) as backend:
        hosted.plan(*probed)
        able, _ = await probe(backend)
        assert able.constraints[0] == backend.constraints[0]
        hosted.plan(*first, mended)
        client = ModelClient(dict.fromkeys(ROLES, able), journal)
        outcomes = await client.ask(word_ask(samples=(0, 1)))
        again = await client.ask(word_ask(samples=(0, 1)))
        await client.dispatcher.close()
    assert sorted(map(str, words(outcomes))) == ["no", "yes"]
    assert words(again) == words(outcomes)
    assert len(hosted.received) == len(probed) + len(first) + 1
    assert "must be yes or no" in json.dumps(hosted.received[-1])
    (corrected,) = (one for one in outcomes if isinstance(one, Reply) and len(one.calls) == 2)
    assert [record.fault for record in corrected.calls] == ["'word' must be yes or no", None]
    assert all(record.input_tokens + record.output_tokens > 0 for record in corrected.calls)


async def test_a_tool_of_anthropic_is_asked_for_where_the_schema_is_refused(
    hosted: HostedServer, monkeypatch: pytest.MonkeyPatch, journal: Journal
) -> None:
    point_at(hosted, monkeypatch)
    unknown = Http(
        400, {"type": "error", "error": {"type": "invalid_request_error", "message": "output_config"}}
    )
    hosted.plan(unknown, anthropic_text("hello"), unknown, anthropic_tool(json.loads(ZEBRA)))
    async with Connected("anthropic") as backend:
        able, findings = await probe(backend)
        assert findings.constraint == "tool"
        hosted.plan(anthropic_tool({"word": "yes"}))
        client = ModelClient(dict.fromkeys(ROLES, able), journal)
        assert words(await client.ask(word_ask())) == ["yes"]
        await client.dispatcher.close()
    assert hosted.received[-1]["tool_choice"]["name"] == "word"
