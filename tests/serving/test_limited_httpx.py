"""Replies to the providers' own clients have a limit of size, packed or not."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from serving.backends.limited_httpx import client_settings
from serving.protocol.errors import CallError
from serving.protocol.model_name import HOSTED
from tests.serving.hosted_models import answers, call

pytestmark = pytest.mark.usefixtures("hosted_allowed")


class Huge:
    """Answers everything with a JSON of 3 MB of blanks, or with some bytes as they are."""

    def __init__(self) -> None:
        self.packed = ""
        self.content = b" " * 3_000_000 + b"{}"
        huge = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                pass

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                asked = self.headers["Accept-Encoding"]
                assert "br" not in asked and "zstd" not in asked
                content = gzip.compress(huge.content) if huge.packed == "gzip" else huge.content
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                if huge.packed:
                    self.send_header("Content-Encoding", huge.packed)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                # The client has had enough before the end.
                try:
                    self.wfile.write(content)
                except OSError:
                    return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def huge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Huge]:
    monkeypatch.setattr("serving.backends.limited_httpx.MAX_REPLY_BYTES", 2 << 20)
    huge = Huge()
    for name in ("OPENAI", "ANTHROPIC", "GOOGLE", "DEEPSEEK"):
        monkeypatch.setenv(f"{name}_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{huge.url}/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", huge.url)
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", huge.url)
    monkeypatch.setenv("DEEPSEEK_API_BASE", f"{huge.url}/v1")
    yield huge
    huge.stop()


@pytest.mark.parametrize("packed", ["", "gzip"])
@pytest.mark.parametrize("provider", HOSTED)
async def test_a_huge_reply_is_given_up(huge: Huge, provider: str, packed: str) -> None:
    huge.packed = packed
    with pytest.raises(CallError, match="the reply is larger than 2 MB") as caught:
        await answers(provider, call())
    assert (caught.value.error_class, caught.value.retryable) == ("internal", False)


@pytest.mark.parametrize("provider", HOSTED)
async def test_a_reply_is_packed_only_as_was_asked_for(huge: Huge, provider: str) -> None:
    huge.packed = "zstd"
    with pytest.raises(CallError, match="the reply is packed as 'zstd'"):
        await answers(provider, call())


async def test_a_stream_is_handed_on_piece_by_piece_until_the_limit(huge: Huge) -> None:
    read = 0
    async with httpx.AsyncClient(**client_settings(httpx.AsyncHTTPTransport)) as client:
        with pytest.raises(CallError, match="larger than 2 MB"):
            async with client.stream("POST", huge.url, content=b"x") as response:
                async for part in response.aiter_bytes():
                    read += len(part)
    assert 1 << 20 < read <= 2 << 20
