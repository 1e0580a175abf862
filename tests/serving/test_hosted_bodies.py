"""What each provider's real class sends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from serving.backends.hosted import profile_abilities
from serving.backends.providers import deepseek
from serving.protocol.abilities import Abilities
from serving.protocol.thinking import Effort
from tests.serving.asks import PROMPT, SCHEMA
from tests.serving.hosted_models import KEY, Connected, answers, call, point_at
from tests.serving.hosted_server import (
    Body,
    HostedServer,
    anthropic_text,
    anthropic_tool,
    completion,
    function_call,
    google_reply,
)

pytestmark = pytest.mark.usefixtures("hosted_allowed")

TEXT = '{"word": "yes"}'
REPLIES = {
    "openai": completion({"content": TEXT}),
    "anthropic": anthropic_text(TEXT),
    "google_genai": google_reply(TEXT),
    "deepseek": completion({"content": TEXT}),
}
PATHS = {
    "openai": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "google_genai": "/v1beta/models/gemini-2.5-flash:generateContent",
    "deepseek": "/v1/chat/completions",
}
SYSTEM, USER = (message.text for message in PROMPT)


@pytest.fixture(autouse=True)
def reach(hosted: HostedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    point_at(hosted, monkeypatch)


@pytest.fixture
def openai(hosted: HostedServer) -> HostedServer:
    hosted.default = REPLIES["openai"]
    return hosted


@pytest.fixture
def google(hosted: HostedServer) -> HostedServer:
    hosted.default = REPLIES["google_genai"]
    return hosted


@pytest.fixture
def anthropic(hosted: HostedServer) -> HostedServer:
    hosted.default = REPLIES["anthropic"]
    return hosted


def sent(server: HostedServer) -> Body:
    assert len(server.received) == 1
    return server.received[0]


@pytest.mark.parametrize("provider", REPLIES)
async def test_the_providers_own_route_and_key_are_used(hosted: HostedServer, provider: str) -> None:
    hosted.default = REPLIES[provider]
    await answers(provider, call())
    assert hosted.paths == [PATHS[provider]]
    assert hosted.keys[0].removeprefix("Bearer ") == KEY


async def test_openai_gets_turns_and_settings(openai: HostedServer) -> None:
    await answers("openai", call())
    assert sent(openai) == {
        "model": "gpt-4.1",
        "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": USER}],
        "temperature": 0.5,
        "max_completion_tokens": 40,
        "stream": False,
    }


async def test_openai_gets_the_schema_as_strict(openai: HostedServer) -> None:
    await answers("openai", call("json_schema"))
    assert sent(openai)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "word", "schema": SCHEMA, "strict": True},
    }


@pytest.mark.parametrize("provider", ["openai", "deepseek"])
async def test_json_mode_of_openais_protocol(hosted: HostedServer, provider: str) -> None:
    hosted.default = REPLIES[provider]
    await answers(provider, call("json_object"))
    assert sent(hosted)["response_format"] == {"type": "json_object"}


async def test_openai_gets_n_seed_and_logprobs(openai: HostedServer) -> None:
    await answers("openai", call(samples=3, seed=17, logprobs=True))
    body = sent(openai)
    assert (body["n"], body["seed"], body["logprobs"], body["top_logprobs"]) == (3, 17, True, 5)


async def test_anthropic_gets_the_schema_as_its_output_format(anthropic: HostedServer) -> None:
    await answers("anthropic", call("json_schema"))
    body = sent(anthropic)
    assert body["output_config"]["format"]["type"] == "json_schema"
    schema = body["output_config"]["format"]["schema"]
    assert schema["properties"]["word"]["enum"] == ["yes", "no"]
    assert schema["required"] == ["word"]
    assert schema["additionalProperties"] is False
    assert "tools" not in body


async def test_anthropic_is_forced_to_use_one_tool(hosted: HostedServer) -> None:
    hosted.default = anthropic_tool({"word": "yes"})
    await answers("anthropic", call("tool"))
    body = sent(hosted)
    (tool,) = body["tools"]
    assert (tool["name"], tool["input_schema"]) == ("word", SCHEMA)
    assert body["tool_choice"] == {"type": "tool", "name": "word", "disable_parallel_tool_use": True}
    assert "output_config" not in body


async def test_anthropic_gets_turns_and_settings(anthropic: HostedServer) -> None:
    await answers("anthropic", call())
    assert sent(anthropic) == {
        "model": "claude-opus-4-5",
        "system": SYSTEM,
        "messages": [{"role": "user", "content": USER}],
        "temperature": 0.5,
        "max_tokens": 40,
    }


async def test_google_gets_turns_and_settings(google: HostedServer) -> None:
    await answers("google_genai", call(seed=17))
    body = sent(google)
    assert body["systemInstruction"]["parts"] == [{"text": SYSTEM}]
    assert body["contents"] == [{"role": "user", "parts": [{"text": USER}]}]
    assert body["generationConfig"] == {
        "temperature": 0.5,
        "maxOutputTokens": 40,
        "candidateCount": 1,
        "seed": 17,
    }


async def test_google_gets_the_schema_as_it_is(google: HostedServer) -> None:
    await answers("google_genai", call("json_schema"))
    config = sent(google)["generationConfig"]
    assert (config["responseMimeType"], config["responseJsonSchema"]) == ("application/json", SCHEMA)


async def test_google_is_asked_for_no_more_candidates_than_it_gives(hosted: HostedServer) -> None:
    hosted.plan(google_reply(*["a"] * 8), google_reply("b"))
    found = await answers("google_genai", call(samples=9))
    assert [body["generationConfig"]["candidateCount"] for body in hosted.received] == [8, 1]
    assert [answer.text for answer in found] == ["a"] * 8 + ["b"]


async def test_deepseek_is_forced_to_use_one_strict_tool(hosted: HostedServer) -> None:
    hosted.default = completion(function_call(TEXT), reason="tool_calls")
    await answers("deepseek", call("tool"))
    body = sent(hosted)
    (tool,) = body["tools"]
    assert (tool["type"], tool["function"]["name"]) == ("function", "word")
    assert (tool["function"]["strict"], tool["function"]["parameters"]) == (True, SCHEMA)
    assert body["tool_choice"] == {"type": "function", "function": {"name": "word"}}
    assert "response_format" not in body


async def test_deepseeks_strict_tools_go_to_its_beta_address(
    hosted: HostedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEEPSEEK_API_BASE")
    monkeypatch.setattr(deepseek, "BETA", f"{hosted.url}/beta")
    hosted.default = completion(function_call(TEXT), reason="tool_calls")
    await answers("deepseek", call("tool"))
    assert hosted.paths == ["/beta/chat/completions"]


@pytest.mark.parametrize(
    ("provider", "model"),
    [("openai", "gpt-5"), ("anthropic", "claude-opus-5"), ("google_genai", "gemini-4-argon")],
)
async def test_a_model_with_a_fixed_temperature_gets_none(
    hosted: HostedServer, monkeypatch: pytest.MonkeyPatch, provider: str, model: str
) -> None:
    def of_a_fixed_temperature(profile: Mapping[str, Any], *given: Any) -> Abilities:
        # Which models have one differs between releases of LangChain's profiles.
        return profile_abilities({**profile, "temperature": False}, *given)

    monkeypatch.setattr("serving.backends.hosted.profile_abilities", of_a_fixed_temperature)
    hosted.default = REPLIES[provider]
    await answers(provider, call(), model)
    assert "temperature" not in json.dumps(sent(hosted))


@pytest.mark.parametrize(
    ("provider", "path"), [(name, PATHS[name]) for name in ("anthropic", "google_genai")]
)
async def test_an_address_is_asked_in_the_providers_own_protocol(
    hosted: HostedServer, monkeypatch: pytest.MonkeyPatch, provider: str, path: str
) -> None:
    for name in ("ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name)
    hosted.default = REPLIES[provider]
    async with Connected(provider, url=f"{hosted.url}/") as backend:
        (server,) = backend.servers
        assert server.endpoint == hosted.url
        (answer,) = await server.complete(call())
    assert answer.text == TEXT
    assert hosted.paths == [path]
    assert hosted.keys[0].removeprefix("Bearer ") == "EMPTY"


@pytest.mark.parametrize(
    ("provider", "model", "effort", "field", "sent_as"),
    [
        ("anthropic", "claude-opus-4-6", "off", "thinking", {"type": "disabled"}),
        ("anthropic", "claude-opus-4-6", "high", "thinking", {"type": "adaptive"}),
        ("anthropic", "claude-opus-4-6", "high", "output_config", {"effort": "high"}),
        ("deepseek", "deepseek-chat", "off", "thinking", {"type": "disabled"}),
        ("deepseek", "deepseek-chat", "off", "reasoning_effort", None),
        ("google_genai", "gemini-2.5-flash", "off", "generationConfig", [0]),
    ],
)
async def test_an_effort_is_sent_in_the_providers_words(
    hosted: HostedServer, provider: str, model: str, effort: Effort, field: str, sent_as: object
) -> None:
    hosted.default = REPLIES[provider]
    await answers(provider, replace(call(), effort=effort), model)
    found: Any = sent(hosted).get(field)
    assert (list(found["thinkingConfig"].values()) if provider == "google_genai" else found) == sent_as
