"""Keys with stray characters: what copying adds is taken off, and the rest refused without showing it."""

from __future__ import annotations

import pytest

from retrieval.embeddings import connect_embedder
from retrieval.index.connect_store import check_store
from serving.backends import connect
from serving.backends.backend import exchange
from serving.protocol.errors import ModelError
from serving.protocol.model_name import ModelName, key_variable
from tests.serving.fake_server import MODEL, FakeServer
from tests.serving.hosted_models import MODELS, Connected, answers, call, point_at
from tests.serving.hosted_server import HostedServer
from tests.serving.test_hosted_bodies import REPLIES

pytestmark = pytest.mark.usefixtures("hosted_allowed")

KEY = "sk-5ecret"
STRAY = [f"{KEY}\n", f" {KEY}", f"{KEY}\r\n", f"\t{KEY} \n"]
BROKEN = ["sk-5e\ncret", "sk-5e cret", "sk-5\u00e9cret", "sk-5e\rcret", "sk-5e\x1bcret"]


@pytest.mark.parametrize("text", STRAY)
@pytest.mark.parametrize("provider", ["vllm", "openai", "deepseek"])
async def test_blanks_around_a_key_are_taken_off(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, provider: str, text: str
) -> None:
    monkeypatch.setenv(key_variable(provider), text)
    async with Connected(provider, MODEL, server.url) as backend:
        await exchange(backend.servers[0], call(), limit_s=10, retries=0)
    assert {request.authorization for request in server.received} == {f"Bearer {KEY}"}


@pytest.mark.parametrize("provider", MODELS)
async def test_so_they_are_for_services(
    hosted: HostedServer, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    point_at(hosted, monkeypatch)
    hosted.default = REPLIES[provider]
    monkeypatch.setenv(key_variable(provider), f" {KEY}\r\n")
    await answers(provider, call())
    assert hosted.keys in ([KEY], [f"Bearer {KEY}"])


@pytest.mark.parametrize("text", BROKEN)
@pytest.mark.parametrize(
    ("provider", "url"),
    [(name, None) for name in MODELS] + [(name, "http://127.0.0.1:9/v1") for name in ("vllm", *MODELS)],
)
def test_a_key_that_no_header_holds_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, provider: str, text: str, url: str | None
) -> None:
    monkeypatch.setenv(key_variable(provider), text)
    with pytest.raises(ModelError, match=key_variable(provider)) as caught:
        connect(ModelName(provider, MODELS.get(provider, MODEL), url))
    assert "cret" not in str(caught.value) and "sk-" not in str(caught.value)


@pytest.mark.parametrize(
    ("provider", "variable"), [("anthropic", "ANTHROPIC_AUTH_TOKEN"), ("google_genai", "GEMINI_API_KEY")]
)
def test_a_key_that_a_library_reads_itself_is_refused_with_blanks_around_it(
    monkeypatch: pytest.MonkeyPatch, provider: str, variable: str
) -> None:
    monkeypatch.setenv(variable, f"{KEY}\n")
    with pytest.raises(ModelError, match=variable) as caught:
        connect(ModelName(provider, MODELS[provider]))
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("address", [f"http://u:{KEY}@host/v1", f"http://host/v1?key={KEY}"])
def test_embedders_and_stores_take_no_address_with_a_secret(address: str) -> None:
    with pytest.raises(ModelError, match="OPENAI_API_KEY") as caught:
        connect_embedder(f"openai:m@{address}")
    assert KEY not in str(caught.value)
    with pytest.raises(ModelError, match="QDRANT_API_KEY") as caught:
        check_store(f"qdrant@{address}")
    assert KEY not in str(caught.value)
