"""A server that sends requests on to another one: nothing follows, and the failure names both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from retrieval.embeddings import ServerEmbedder
from retrieval.index.connect_store import StorePlace
from retrieval.index.qdrant_store import open_store
from serving.backends import connect
from serving.backends.backend import exchange
from serving.protocol.errors import CallError, ModelError
from serving.protocol.model_name import ModelName
from serving.requests.probe import probe
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


async def failure(pair: Redirecting, provider: str, url: str | None) -> None:
    model = MODEL if url else MODELS[provider]
    async with Connected(provider, model, url) as backend:
        with pytest.raises(CallError) as caught:
            await exchange(backend.servers[0], call(), limit_s=10, retries=0)
    check(pair, caught.value)
    assert (caught.value.error_class, caught.value.retryable) == ("connection", False)
    assert len(pair.paths) == 1 + (url is not None and provider not in ("anthropic", "google_genai"))


@pytest.mark.parametrize("provider", ["vllm", "openai", "deepseek", "anthropic", "google_genai"])
async def test_no_request_follows_to_another_host(listing: Redirecting, provider: str) -> None:
    path = "" if provider in ("anthropic", "google_genai") else "/v1"
    await failure(listing, provider, f"{listing.url}{path}")


@pytest.mark.parametrize(
    ("provider", "variable", "path"),
    [
        ("openai", "OPENAI_BASE_URL", "/v1"),
        ("anthropic", "ANTHROPIC_BASE_URL", ""),
        ("google_genai", "GOOGLE_GEMINI_BASE_URL", ""),
        ("deepseek", "DEEPSEEK_API_BASE", "/v1"),
    ],
)
async def test_nor_does_one_to_a_service(
    pair: Redirecting, monkeypatch: pytest.MonkeyPatch, provider: str, variable: str, path: str
) -> None:
    for name in ("OPENAI", "ANTHROPIC", "GOOGLE", "DEEPSEEK"):
        monkeypatch.setenv(f"{name}_API_KEY", "a-key")
    monkeypatch.setenv(variable, f"{pair.url}{path}")
    await failure(pair, provider, None)


def test_nor_does_the_look_at_the_list_of_models(pair: Redirecting) -> None:
    with pytest.raises(ModelError) as caught:
        connect(ModelName("vllm", MODEL, f"{pair.url}/v1"))
    check(pair, caught.value)


async def test_nor_do_the_probes_at_the_start(listing: Redirecting) -> None:
    async with Connected("vllm", MODEL, f"{listing.url}/v1") as backend:
        with pytest.raises(ModelError) as caught:
            await probe(backend)
    check(listing, caught.value)


async def test_nor_do_the_tokenizer_and_the_look_at_its_health(listing: Redirecting) -> None:
    async with Connected("vllm", MODEL, f"{listing.url}/v1") as backend:
        assert backend.count_tokens is not None and backend.servers[0].is_up is not None
        with pytest.raises(CallError) as caught:
            await backend.count_tokens(PROMPT)
        check(listing, caught.value)
        await backend.servers[0].is_up()
    assert listing.paths == ["/v1/models", "/tokenize", "/health"]
    assert listing.leaked == []


async def test_nor_does_an_embedder(pair: Redirecting) -> None:
    with pytest.raises(CallError) as caught:
        await ServerEmbedder("m", f"{pair.url}/v1").aembed(["text"])
    check(pair, caught.value)


def test_nor_does_a_store_of_vectors(pair: Redirecting) -> None:
    place = StorePlace(Path(), pair.url, "documents", 8)
    with pytest.raises(CallError) as caught:
        open_store(place)
    check(pair, caught.value)


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
