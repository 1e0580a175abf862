"""Connecting hosted models: nothing is sent, and what is missing is one line."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from serving.backends import connect
from serving.backends.strict_schema import without_keywords
from serving.errors import ModelError
from serving.model_name import HOSTED_PACKAGES, ModelName
from tests.serving.hosted_models import MODELS

EXTRAS = [provider for provider in HOSTED_PACKAGES if provider != "openai"]


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


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("provider", MODELS)
def test_a_hosted_model_is_built_without_a_connection(monkeypatch: pytest.MonkeyPatch, provider: str) -> None:
    monkeypatch.setenv(key_of(provider), "a-key")
    backend = connect(ModelName(provider, MODELS[provider]))
    assert backend.servers[0].endpoint == provider
    assert (backend.context_length, backend.takes_seed) == (None, False)
    assert backend.constraints[-1] == "none"


@pytest.mark.parametrize("provider", MODELS)
def test_a_missing_key_is_one_line(provider: str) -> None:
    assert key_of(provider) in refused(ModelName(provider, MODELS[provider]))


@pytest.mark.parametrize("variable", ["VLLM_API_KEY", "DEEPSEEK_API_KEY"])
def test_the_key_of_another_provider_is_no_key(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "of-another")
    assert "OPENAI_API_KEY" in refused(ModelName("openai", "gpt-5"))


_WITHOUT = """
import os, sys
from serving.backends import connect
from serving.errors import ModelError
from serving.model_name import HOSTED_PACKAGES, ModelName
os.environ["ANTHROPIC_API_KEY"] = "a-key"
for provider in sys.argv[1:]:
    sys.modules[HOSTED_PACKAGES[provider].replace("-", "_")] = None
    try:
        connect(ModelName(provider, "a-model"))
    except ModelError as error:
        print(error)
"""


def test_a_missing_package_is_one_line_with_the_command() -> None:
    # LangChain keeps what it has imported, so this needs a process of its own.
    command = [sys.executable, "-c", _WITHOUT, *EXTRAS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"model '{provider}:a-model' needs a package: pip install {HOSTED_PACKAGES[provider]}"
        for provider in EXTRAS
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
