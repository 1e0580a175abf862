from __future__ import annotations

from collections.abc import Sequence

import pytest

from serving.protocol.errors import ModelError
from serving.protocol.model_name import (
    FOLLOWED,
    PROVIDERS,
    ROLES,
    ModelName,
    Role,
    assign_roles,
    parse_model_name,
    recorded_name,
)

DEFAULTS: dict[Role, str] = dict.fromkeys(ROLES, "scripted:auto")


def refused(text: str) -> str:
    with pytest.raises(ModelError) as caught:
        parse_model_name(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("embedded:smollm2-135m", ModelName("embedded", "smollm2-135m")),
        ("embedded:/models/a b/llama", ModelName("embedded", "/models/a b/llama")),
        (
            "vllm:meta-llama/Llama-3.1-8B@http://localhost:8000/v1",
            ModelName("vllm", "meta-llama/Llama-3.1-8B", "http://localhost:8000/v1"),
        ),
        ("openai:gpt-5", ModelName("openai", "gpt-5")),
        ("openai:qwen3:8b@https://host/v1", ModelName("openai", "qwen3:8b", "https://host/v1")),
        ("google_genai:gemini@001", ModelName("google_genai", "gemini@001")),
        ("openai:a@1@http://host/v1", ModelName("openai", "a@1", "http://host/v1")),
        ("anthropic:claude-sonnet-5", ModelName("anthropic", "claude-sonnet-5")),
        ("deepseek:deepseek-chat", ModelName("deepseek", "deepseek-chat")),
        ("scripted:replies.jsonl", ModelName("scripted", "replies.jsonl")),
        ("scripted:script.py:answer", ModelName("scripted", "script.py:answer")),
        ("scripted:auto", ModelName("scripted", "auto")),
    ],
)
def test_each_form_is_read_and_written_back(text: str, name: ModelName) -> None:
    assert parse_model_name(text) == name
    assert str(name) == text
    assert parse_model_name(f"  {text}\n") == name


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("vllm:tiny@HTTP://host/v1", "an address begins with http:// or https://, in lower case"),
        ("vllm:tiny@http://one/v1,two/v1", "address 'two/v1' does not begin with http:// or https://"),
    ],
)
def test_an_address_begins_with_its_protocol(text: str, fault: str) -> None:
    assert refused(text) == f"model {text!r}: {fault}"


@pytest.mark.parametrize(
    "text", ["", "tiny", ":gpt-5", "openai:", "@http://host/v1", "openai@http://host/v1"]
)
def test_other_forms_are_refused_with_the_right_one(text: str) -> None:
    message = refused(text)
    assert repr(text) in message
    assert "provider:name@http://host:port/v1" in message
    assert all(provider in message for provider in PROVIDERS)


SECRET = "pw-5ecret"  # noqa: S105 - planted


@pytest.mark.parametrize(
    "address",
    [
        f"http://user:{SECRET}@host/v1",
        f"http://{SECRET}@host/v1",
        f"HTTPS://user:{SECRET}@host/v1",
        f"http://user:a@{SECRET}@host/v1",
        f"http://user:{SECRET}/b@host/v1",
        f"http://one/v1,http://user:{SECRET}@two/v1",
        f"http://host/v1?key={SECRET}",
        f"http://host/v1?key=a,{SECRET}",
        f"http://host/v1#{SECRET}",
        f"http://[::1?{SECRET}",
        f"http://user:{SECRET}@[::1/v1",
    ],
)
@pytest.mark.parametrize("provider", ["vllm", "google_genai", "vlm"])
def test_an_address_with_a_secret_is_refused_and_the_secret_not_shown(provider: str, address: str) -> None:
    message = refused(f"{provider}:model@{address}")
    assert SECRET not in message
    assert "_API_KEY" in message
    with pytest.raises(ModelError) as caught:
        assign_roles([f"lable={provider}:model@{address}"], DEFAULTS)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("typo", "nearest"),
    [("vlm", "vllm"), ("antropic", "anthropic"), ("opena", "openai"), ("olama", "ollama")],
)
def test_a_misspelt_provider_gets_the_nearest(typo: str, nearest: str) -> None:
    assert refused(f"{typo}:model@http://host/v1").endswith(f"did you mean {nearest!r}?")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ollama:llama3.2:3b", ModelName("openai", "llama3.2:3b", "http://127.0.0.1:11434/v1")),
        ("lmstudio:qwen3", ModelName("openai", "qwen3", "http://127.0.0.1:1234/v1")),
        ("ollama:llama3.2@http://gpu:11434/v1", ModelName("openai", "llama3.2", "http://gpu:11434/v1")),
    ],
)
def test_a_local_program_is_its_address(text: str, name: ModelName) -> None:
    assert parse_model_name(text) == name


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("gpt-4o", "openai:gpt-4o"),
        ("claude-opus-4-5", "anthropic:claude-opus-4-5"),
        ("gemini-2.5-pro", "google_genai:gemini-2.5-pro"),
    ],
)
def test_a_hosted_model_without_its_provider_is_recognised(text: str, meant: str) -> None:
    assert refused(text).endswith(f"did you mean {meant!r}?")


def test_an_unknown_provider_gets_all() -> None:
    message = refused("xyz:model")
    assert f"known: {', '.join(PROVIDERS)}, ollama, lmstudio; " in message
    assert message.endswith("OpenRouter, Together and Azure are openai:NAME@ADDRESS")


def test_a_recorded_name_is_read_though_its_provider_is_gone() -> None:
    text = "gone:org/model@http://host/v1"
    assert "unknown provider 'gone'" in refused(text)
    assert recorded_name(text) == ModelName("gone", "org/model", "http://host/v1")
    assert str(recorded_name(f"batch:{text}")) == f"batch:{text}"
    # An earlier version took a file of addresses.
    assert recorded_name("vllm:org/model@file:/data/endpoints.txt") == ModelName("vllm", "org/model")
    with pytest.raises(ModelError, match="not of the form provider:name"):
        recorded_name("model")


def test_vllm_without_an_address_needs_a_server() -> None:
    assert parse_model_name("vllm:org/llama").needs_server
    assert not parse_model_name("vllm:org/llama@http://host:8000/v1").needs_server
    assert not parse_model_name("openai:gpt-5").needs_server


def chosen(arguments: Sequence[str], defaults: dict[Role, str] | None = None) -> dict[Role, str]:
    return {role: str(name) for role, name in assign_roles(arguments, defaults or DEFAULTS).items()}


@pytest.mark.parametrize("arguments", [["openai:a", "answer=openai:b"], ["answer=openai:b", "openai:a"]])
def test_a_named_role_wins_in_any_order(arguments: Sequence[str]) -> None:
    given = chosen(arguments)
    assert {role for role in ROLES if given[role] == "openai:b"} == {"answer", "verify"}
    assert set(given.values()) == {"openai:a", "openai:b"}


@pytest.mark.parametrize(("role", "followed"), FOLLOWED.items())
def test_a_role_follows_another_unless_it_is_set_itself(role: Role, followed: Role) -> None:
    given = f"{followed}=openai:b"
    assert chosen([given]) == {**DEFAULTS, followed: "openai:b", role: "openai:b"}
    assert chosen([given, f"{role}=openai:c"])[role] == "openai:c"
    without = {one: name for one, name in DEFAULTS.items() if one != role}
    assert chosen([], without)[role] == DEFAULTS[followed]


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("labels=openai:a", "did you mean 'label'?"),
        ("xyz=openai:a", "roles: classify, label, reflect, answer, verify"),
    ],
)
def test_an_unknown_role_is_named_with_the_nearest(argument: str, expected: str) -> None:
    with pytest.raises(ModelError, match=r"unknown role") as caught:
        assign_roles([argument], DEFAULTS)
    assert expected in str(caught.value)


def test_a_role_without_a_model_is_named() -> None:
    with pytest.raises(ModelError, match="no model for classify, answer"):
        assign_roles(["label=openai:a"], {})
