from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from tenacity.wait import wait_none

from serving.backends import Backend, connect
from serving.backends.providers import all_facts
from serving.journal.journal import Journal
from serving.policy import gate
from serving.protocol.limits import Limits
from serving.protocol.model_name import ROLES, ModelName
from serving.requests.client import ModelClient
from tests.serving.asks import Connect, Reach
from tests.serving.fake_server import MODEL, FakeServer
from tests.serving.hosted_server import HostedServer


@pytest.fixture(autouse=True)
def no_user_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    hosted = [(one.key, *one.other_keys, *one.service_variables) for one in all_facts()]
    for name in (
        *itertools.chain(*hosted),
        *("VLLM_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROXY", "GOOGLE_GENAI_USE_VERTEXAI", "LANGSMITH_GATEWAY"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"),
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    server = FakeServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def reach() -> AsyncIterator[Reach]:
    """`connect`, with the connections given back at the end."""
    reached: list[Backend] = []

    def reaching(name: ModelName) -> Backend:
        reached.append(connect(name))
        return reached[-1]

    yield reaching
    for backend in reached:
        for one in backend.servers:
            assert one.close is not None
            await one.close()


@pytest.fixture
def backend(server: FakeServer, reach: Reach) -> Backend:
    return reach(ModelName("vllm", MODEL, server.url))


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "calls.sqlite")
    yield journal
    journal.close()


@pytest.fixture
async def connect_client(backend: Backend, journal: Journal) -> AsyncIterator[Connect]:
    clients: list[ModelClient] = []

    def made(max_retries: int = 4, backend: Backend = backend, limits: Limits | None = None) -> ModelClient:
        clients.append(
            ModelClient(dict.fromkeys(ROLES, backend), journal, limits or Limits(max_retries=max_retries))
        )
        return clients[-1]

    yield made
    for client in clients:
        await client.aclose()


@pytest.fixture
def client(connect_client: Connect) -> ModelClient:
    return connect_client()


@pytest.fixture
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow each other at once where the server named no time to wait."""
    monkeypatch.setattr("serving.requests.dispatcher._BACKOFF", wait_none())


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return written


@pytest.fixture
def hosted() -> Iterator[HostedServer]:
    server = HostedServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def hosted_allowed() -> None:
    """As by `--allow-hosted`: without a policy a service is asked for no texts but these."""
    gate.choose(None, allow_hosted=True)
