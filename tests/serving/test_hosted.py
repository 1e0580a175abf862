from __future__ import annotations

import socket
import sys

import pytest
from langchain_openai import ChatOpenAI

from serving.backends import CallParameters, connect
from serving.errors import ModelError
from serving.model_name import HOSTED_PACKAGES, ModelName
from tests.serving.asks import SCHEMA

EXTRAS = [provider for provider in HOSTED_PACKAGES if provider != "openai"]


@pytest.fixture(autouse=True)
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


def test_a_hosted_model_is_built_without_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    backend = connect(ModelName("openai", "gpt-5"))
    assert isinstance(backend.chat_model, ChatOpenAI)
    assert backend.chat_model.model_name == "gpt-5"
    assert backend.chat_model.max_retries == 0
    assert (backend.endpoint, backend.context_length) == ("openai", None)
    assert backend.many_samples


def test_a_hosted_model_gets_the_schema_and_no_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    call = CallParameters("label", "7", (0, 1), 0.5, 40, 3, SCHEMA, "word")
    arguments = connect(ModelName("openai", "gpt-5")).arguments(call)
    assert (arguments["n"], arguments["temperature"], arguments["max_tokens"]) == (2, 0.5, 40)
    assert arguments["extra_body"]["response_format"]["json_schema"]["schema"] == SCHEMA
    assert "seed" not in arguments


@pytest.mark.parametrize("variable", ["", "VLLM_API_KEY", "DEEPSEEK_API_KEY"])
def test_a_missing_key_is_one_line(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    if variable:
        monkeypatch.setenv(variable, "of-another")
    assert "OPENAI_API_KEY" in refused(ModelName("openai", "gpt-5"))


@pytest.mark.parametrize("provider", EXTRAS)
def test_a_missing_package_is_one_line_with_the_command(
    monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    package = HOSTED_PACKAGES[provider]
    monkeypatch.setitem(sys.modules, package.replace("-", "_"), None)
    assert refused(ModelName(provider, "a-model")).endswith(f"needs a package: pip install {package}")
