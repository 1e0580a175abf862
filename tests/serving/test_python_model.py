"""A chat model of the user's own: named by `python:`, or given as an object."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import Field, SecretStr

from serving.backends import connect
from serving.backends.backend import Backend
from serving.backends.python_model import addresses_of, name_of
from serving.journal.journal import Journal
from serving.policy import gate
from serving.policy.policy import PolicyError
from serving.protocol.errors import ModelError
from serving.protocol.model_name import ROLES, ModelName, parse_model_name
from serving.requests.client import ModelClient
from serving.requests.probe import probe
from tests.serving.asks import SCHEMA, as_sent, word_ask, words
from tests.serving.fake_server import MODEL, FakeServer
from tests.serving.forward_proxy import forward_proxy

HERE = "http://127.0.0.1:9/v1"


class Counting(BaseChatModel):
    """Says yes, and counts how often it was asked."""

    base_url: str | None = HERE
    temperature: float = 1.0
    max_tokens: int = 100
    word: str = "yes"
    asked: list[tuple[float, int]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "counting"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": "of-mine", "word": self.word, "base_url": self.base_url}

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **_: Any
    ) -> ChatResult:
        self.asked.append((self.temperature, self.max_tokens))
        reply = AIMessage(f'{{"word": "{self.word}"}}')
        return ChatResult(generations=[ChatGeneration(message=reply)])


def make() -> Counting:
    return Counting()


def client_of(model: BaseChatModel, journal: Journal) -> ModelClient:
    return ModelClient(dict.fromkeys(ROLES, connect(name_of(model))), journal)


async def test_an_object_is_asked_with_the_settings_of_the_call(journal: Journal) -> None:
    model = Counting()
    client = client_of(model, journal)
    assert words(await client.ask(word_ask(max_tokens=40))) == ["yes"]
    assert model.asked == [(0.7, 40)]
    assert (model.temperature, model.max_tokens) == (1.0, 100)


async def test_votes_are_asked_one_by_one_and_replayed(journal: Journal) -> None:
    set_llm_cache(InMemoryCache())
    try:
        model = Counting()
        for sample in (0, 1, 2):
            assert words(await client_of(model, journal).ask(word_ask(samples=(sample,)))) == ["yes"]
        assert len(model.asked) == 3
        again = Counting()
        assert words(await client_of(again, journal).ask(word_ask(samples=(0, 1, 2)))) == ["yes"] * 3
        assert again.asked == []
    finally:
        set_llm_cache(None)


def test_a_name_follows_the_settings_and_not_the_address() -> None:
    one = name_of(Counting())
    assert str(one).startswith("python:Counting(of-mine)#")
    assert parse_model_name(str(one)) == one
    assert name_of(Counting(word="no")).identity != one.identity
    assert name_of(Counting(temperature=0.2, max_tokens=7)) == one
    moved = name_of(Counting(base_url="http://127.0.0.2:9"))
    assert (moved.identity, moved.base_url) == (one.identity, "http://127.0.0.2:9")


def test_an_object_of_another_process_is_asked_for() -> None:
    with pytest.raises(ModelError, match=r"is an object of a Python program; go on there"):
        connect(parse_model_name(f"python:Counting(of-mine)#00000000@{HERE}"))


def test_a_module_in_the_working_folder_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a_model_of_mine.py").write_text(f"from {__name__} import Counting as make\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert connect(parse_model_name("python:a_model_of_mine:make")).constraints == ("none",)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("python:nowhere", "is not of the form python:MODULE:FACTORY"),
        (
            "python:no_such_module:make",
            "cannot be made: ModuleNotFoundError",
        ),
        (f"python:{__name__}:absent", "cannot be made: AttributeError"),
        (f"python:{__name__}:HERE", "cannot be made: TypeError: 'str' object is not callable"),
        ("python:collections:OrderedDict", "OrderedDict gives a OrderedDict; it has to be a BaseChatModel"),
    ],
)
def test_a_wrong_factory_is_named(name: str, fault: str) -> None:
    with pytest.raises(ModelError, match=fault):
        connect(parse_model_name(name))


def openai_at(url: str) -> ChatOpenAI:
    return ChatOpenAI(model=MODEL, base_url=url, api_key=SecretStr("a-key"))


def test_addresses_are_found_without_secrets() -> None:
    assert addresses_of(openai_at("http://user:pass@127.0.0.1:9/v1?key=k")) == ("http://127.0.0.1:9",)
    # LangChain shares clients of one address, and another test may have set the default's.
    service = ChatOpenAI(model=MODEL, api_key=SecretStr("k"), base_url="https://api.openai.com/v1")
    assert addresses_of(service) == ("https://api.openai.com",)
    proxied = ChatOpenAI(
        model=MODEL, api_key=SecretStr("k"), base_url=HERE, openai_proxy="http://proxy.example:3"
    )
    assert set(addresses_of(proxied)) == {"http://127.0.0.1:9", "http://proxy.example:3"}


def test_a_model_without_an_address_needs_consent() -> None:
    hidden = Counting(base_url=None)
    with pytest.raises(PolicyError, match="it shows no address"):
        connect(name_of(hidden))
    gate.choose(None, allow_hosted=True)
    assert connect(name_of(hidden)).servers[0].endpoint == str(name_of(hidden))


@pytest.mark.parametrize("given", ["object", "string"])
async def test_no_client_goes_to_this_machine_by_a_proxy(
    given: str, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connected() -> Backend:
        if given == "object":
            return connect(name_of(openai_at(server.url)))
        return connect(parse_model_name(f"langchain:openai:{MODEL}@{server.url}"))

    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    with forward_proxy(server.port) as proxy:
        for variable in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(variable, proxy.url)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        await connected().servers[0].complete(as_sent())
        assert proxy.hosts == [] and len(server.chats) == 1
        for variable in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(variable, raising=False)
        with pytest.raises(ModelError, match=r"proxy of the environment for 127\.0\.0\.1; name 127\.0\.0\.1"):
            connected()


@pytest.fixture
def chat_backend(server: FakeServer) -> Iterator[Backend]:
    yield connect(name_of(openai_at(server.url)))


async def test_a_class_that_binds_tools_is_held_to_a_schema(
    chat_backend: Backend, server: FakeServer
) -> None:
    assert chat_backend.constraints == ("tool", "none")
    await chat_backend.servers[0].complete(as_sent(SCHEMA, constraint="tool", temperature=0.7))
    (body,) = server.chats
    assert body["tool_choice"] == {"type": "function", "function": {"name": "word"}}
    assert body["tools"][0]["function"]["parameters"] == SCHEMA
    assert (body["temperature"], body["max_completion_tokens"]) == (0.7, 40)


async def test_a_provider_of_langchain_goes_through_gate_and_probe(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with pytest.raises(PolicyError, match=r"would go to api\.openai\.com, and no policy"):
        connect(parse_model_name("langchain:openai:gpt-4o"))
    backend = connect(parse_model_name(f"langchain:openai:{MODEL}@{server.url}"))
    _, findings = await probe(backend)
    assert findings.tried and server.probes


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("openai", "is not of the form langchain:PROVIDER:NAME"),
        ("nonsense:x", "Unsupported provider='nonsense'"),
        ("fireworks:x", "langchain-fireworks"),
    ],
)
def test_a_provider_that_langchain_cannot_make_is_named(name: str, fault: str) -> None:
    with pytest.raises(ModelError, match=fault) as caught:
        connect(ModelName("langchain", name))
    assert f"'langchain:{name}'" in str(caught.value)
