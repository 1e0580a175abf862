"""A server that sends requests on to another one: nothing follows, and the failure names both."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from serving.backends import connect
from serving.backends.backend import exchange
from serving.backends.providers import facts_of
from serving.protocol.errors import CallError, ModelError
from serving.protocol.model_name import HOSTED, ModelName
from tests.serving.asks import PROMPT
from tests.serving.fake_server import MODEL
from tests.serving.hosted_models import MODELS, Connected, call
from tests.serving.redirecting import SECRET, Redirecting, redirecting

STATUSES = (301, 302, 303, 307, 308)
LIST = json.dumps({"data": [{"id": MODEL, "max_model_len": 4096, "owned_by": "vllm"}]}).encode()


@pytest.fixture(params=STATUSES)
def pair(request: pytest.FixtureRequest) -> Iterator[Redirecting]:
    with redirecting(request.param) as pair:
        yield pair


@pytest.fixture
def listing(pair: Redirecting) -> Redirecting:
    """The first server lists its models itself, and sends everything else on."""
    pair.kept["/v1/models"] = LIST
    return pair


def check(pair: Redirecting, error: Exception) -> None:
    """Nobody has called the other server, and one line names both without what is secret."""
    assert pair.leaked == []
    text = str(error)
    assert all(host in text for host in pair.hosts), text
    assert SECRET not in text and "\n" not in text and "?" not in text


def speaks_openai(provider: str) -> bool:
    return provider == "vllm" or facts_of(provider).speaks_openai


async def failure(pair: Redirecting, provider: str, url: str | None) -> None:
    model = MODEL if url else MODELS[provider]
    async with Connected(provider, model, url) as backend:
        with pytest.raises(CallError) as caught:
            await exchange(backend.servers[0], call(), limit_s=10, retries=0)
    check(pair, caught.value)
    assert (caught.value.error_class, caught.value.retryable) == ("connection", False)
    assert len(pair.paths) == 1 + (url is not None and speaks_openai(provider))


@pytest.mark.parametrize("provider", ["vllm", *HOSTED])
async def test_no_request_follows_to_another_host(listing: Redirecting, provider: str) -> None:
    path = "/v1" if speaks_openai(provider) else ""
    await failure(listing, provider, f"{listing.url}{path}")


@pytest.mark.parametrize("provider", HOSTED)
async def test_nor_does_one_to_a_service(
    pair: Redirecting, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    facts = facts_of(provider)
    monkeypatch.setenv(facts.key, "a-key")
    path = "/v1" if facts.speaks_openai else ""
    monkeypatch.setenv(facts.service_variables[-1], f"{pair.url}{path}")
    await failure(pair, provider, None)


def test_nor_does_the_look_at_the_list_of_models(pair: Redirecting) -> None:
    with pytest.raises(ModelError) as caught:
        connect(ModelName("vllm", MODEL, f"{pair.url}/v1"))
    check(pair, caught.value)


async def test_nor_do_the_tokenizer_and_the_look_at_its_health(listing: Redirecting) -> None:
    async with Connected("vllm", MODEL, f"{listing.url}/v1") as backend:
        assert backend.count_tokens is not None and backend.servers[0].is_up is not None
        with pytest.raises(CallError) as caught:
            await backend.count_tokens(PROMPT)
        check(listing, caught.value)
        await backend.servers[0].is_up()
    assert listing.paths == ["/v1/models", "/tokenize", "/health"]
    assert listing.leaked == []


async def test_a_redirect_within_a_server_says_so(listing: Redirecting) -> None:
    listing.location = "/elsewhere?case=text"
    async with Connected("vllm", MODEL, f"{listing.url}/v1") as backend:
        with pytest.raises(CallError, match="another path") as caught:
            await exchange(backend.servers[0], call(), limit_s=10, retries=0)
    assert "case=text" not in str(caught.value)


@pytest.mark.parametrize("location", ["", "http://[", "//", "javascript:alert(1)", "http://\x1b[31mred/"])
async def test_a_redirect_to_nowhere_is_the_same_failure(listing: Redirecting, location: str) -> None:
    listing.location = location
    async with Connected("vllm", MODEL, f"{listing.url}/v1") as backend:
        with pytest.raises(CallError, match="redirects") as caught:
            await exchange(backend.servers[0], call(), limit_s=10, retries=0)
    assert caught.value.error_class == "connection"
    assert str(caught.value).isprintable()
