"""Hosted models: connected without a request, asked by their LangChain classes on loopback."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import pytest

from serving.backends import connect
from serving.backends.providers import all_facts
from serving.backends.reply_schemas import without_keywords
from serving.journal.journal import Journal
from serving.protocol.errors import ModelError
from serving.protocol.model_name import ROLES, ModelName
from serving.protocol.request import Reply
from serving.requests.client import ModelClient
from serving.requests.probe import probe
from tests.serving.asks import said, word_ask, words
from tests.serving.fake_server import MODEL, FakeServer, Refuse
from tests.serving.hosted_models import MODELS, Connected, point_at
from tests.serving.hosted_server import (
    HostedServer,
    Http,
    anthropic_text,
    anthropic_tool,
    completion,
    function_call,
    google_reply,
)

EXTRAS = {one.name: one.package for one in all_facts() if one.name != "openai"}


pytestmark = pytest.mark.usefixtures("hosted_allowed")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def refused(name: ModelName) -> str:
    with pytest.raises(ModelError) as caught:
        connect(name)
    assert "\n" not in str(caught.value)
    assert repr(str(name)) in str(caught.value)
    return str(caught.value)


def key_of(provider: str) -> str:
    return f"{provider.removesuffix('_genai').upper()}_API_KEY"


@pytest.mark.parametrize("provider", MODELS)
def test_a_missing_key_is_one_line(provider: str) -> None:
    message = refused(ModelName(provider, MODELS[provider]))
    assert message.endswith(f"needs an API key: set {key_of(provider)}")


_WITHOUT = """
import os, sys
from serving.policy import gate
from serving.backends import connect
from serving.protocol.errors import ModelError
from serving.protocol.model_name import ModelName
os.environ["ANTHROPIC_API_KEY"] = "a-key"
for argument in sys.argv[1:]:
    provider, package = argument.split("=")
    sys.modules[package.replace("-", "_")] = None
    gate.choose(None, allow_hosted=True)
    try:
        connect(ModelName(provider, "a-model"))
    except ModelError as error:
        print(error)
"""


def test_a_missing_package_is_one_line_with_the_command() -> None:
    # LangChain keeps what it has imported, so this needs a new process.
    command = [
        sys.executable,
        "-c",
        _WITHOUT,
        *(f"{provider}={package}" for provider, package in EXTRAS.items()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"model '{provider}:a-model' needs a package: pip install {package}"
        for provider, package in EXTRAS.items()
    ]


def test_keywords_that_a_strict_mode_refuses_are_left_out_at_any_depth() -> None:
    ids = {"type": "array", "items": {"enum": ["uniqueItems"]}, "uniqueItems": True}
    schema = {"type": "object", "properties": {"uniqueItems": ids}, "required": ["uniqueItems"]}
    assert without_keywords(schema, ("uniqueItems",)) == {
        "type": "object",
        "properties": {"uniqueItems": {"type": "array", "items": {"enum": ["uniqueItems"]}}},
        "required": ["uniqueItems"],
    }
    assert ids["uniqueItems"] is True


@pytest.fixture
def openai(server: FakeServer, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> ModelClient:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    return ModelClient({"label": connect(ModelName("openai", MODEL))}, journal)


async def test_a_hosted_model_is_asked_again_by_our_loop_only(
    server: FakeServer, openai: ModelClient
) -> None:
    server.default = Refuse(429, retry_after="0.01")
    assert words(await openai.ask(word_ask())) == ["rate_limit"]
    assert len(server.chats) == 5


ZEBRA = '{"word": "zebra-17"}'
"""What the probe wants to see."""

SERVICES = {
    "openai": (
        [
            completion({"content": "ready"}),
            completion({"content": ZEBRA}, {"content": ZEBRA}),
            *[completion({"content": "letters"})] * 2,
        ],
        [completion({"content": said("perhaps")}, {"content": said("no")})],
        completion({"content": said("yes")}),
    ),
    "anthropic": (
        [anthropic_text("ready"), anthropic_text(ZEBRA)],
        [anthropic_text(said("perhaps")), anthropic_text(said("no"))],
        anthropic_text(said("yes")),
    ),
    "google_genai": (
        [google_reply("ready"), google_reply(ZEBRA, ZEBRA), *[google_reply("letters")] * 2],
        [google_reply(said("perhaps"), said("no"))],
        google_reply(said("yes")),
    ),
    "deepseek": (
        [completion({"content": "ready"}), completion(function_call(ZEBRA))],
        [completion(function_call(said("perhaps"))), completion(function_call(said("no")))],
        completion(function_call(said("yes"))),
    ),
}


@pytest.mark.parametrize("provider", SERVICES)
async def test_a_provider_answers_and_corrects_a_reply(
    hosted: HostedServer, monkeypatch: pytest.MonkeyPatch, journal: Journal, provider: str
) -> None:
    point_at(hosted, monkeypatch)
    probed, first, corrected = SERVICES[provider]
    async with Connected(provider) as backend:
        hosted.plan(*probed)
        able, _ = await probe(backend)
        assert able.constraints[0] == backend.constraints[0]
        hosted.plan(*first, corrected)
        client = ModelClient(dict.fromkeys(ROLES, able), journal)
        outcomes = await client.ask(word_ask(samples=(0, 1)))
        again = await client.ask(word_ask(samples=(0, 1)))
        await client.dispatcher.close()
    assert sorted(map(str, words(outcomes))) == ["no", "yes"]
    assert words(again) == words(outcomes)
    assert len(hosted.received) == len(probed) + len(first) + 1
    assert "must be yes or no" in json.dumps(hosted.received[-1])
    (asked_twice,) = (one for one in outcomes if isinstance(one, Reply) and len(one.calls) == 2)
    assert [record.fault for record in asked_twice.calls] == ["'word' must be yes or no", None]
    assert all(record.input_tokens + record.output_tokens > 0 for record in asked_twice.calls)


async def test_a_tool_of_anthropic_is_asked_for_where_the_schema_is_refused(
    hosted: HostedServer, monkeypatch: pytest.MonkeyPatch, journal: Journal
) -> None:
    point_at(hosted, monkeypatch)
    unknown = Http(
        400, {"type": "error", "error": {"type": "invalid_request_error", "message": "output_config"}}
    )
    hosted.plan(anthropic_text("ready"), unknown, anthropic_tool(json.loads(ZEBRA)))
    async with Connected("anthropic") as backend:
        able, findings = await probe(backend)
        assert findings.constraint == "tool"
        hosted.plan(anthropic_tool({"word": "yes"}))
        client = ModelClient(dict.fromkeys(ROLES, able), journal)
        assert words(await client.ask(word_ask())) == ["yes"]
        await client.dispatcher.close()
    assert hosted.received[-1]["tool_choice"]["name"] == "word"
