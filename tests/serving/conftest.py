from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tenacity.wait import wait_none

from serving.backends import Backend, connect
from serving.client import ModelClient
from serving.journal import Journal
from serving.model_name import ROLES, ModelName
from tests.serving.asks import Connect
from tests.serving.fake_server import MODEL, FakeServer


@pytest.fixture(autouse=True)
def no_user_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        *("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_ORG_ID", "OPENAI_PROXY"),
        *("VLLM_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "DEEPSEEK_API_KEY"),
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
def backend(server: FakeServer) -> Backend:
    return connect(ModelName("vllm", MODEL, server.url))


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "calls.sqlite")
    yield journal
    journal.close()


@pytest.fixture
def client(backend: Backend, journal: Journal) -> ModelClient:
    return ModelClient(dict.fromkeys(ROLES, backend), journal)


@pytest.fixture
def connect_client(backend: Backend, journal: Journal) -> Connect:
    def made(max_retries: int = 4, backend: Backend = backend) -> ModelClient:
        return ModelClient(dict.fromkeys(ROLES, backend), journal, max_retries)

    return made


@pytest.fixture
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow each other at once where the server named no time to wait."""
    monkeypatch.setattr("serving.client._BACKOFF", wait_none())


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return written
