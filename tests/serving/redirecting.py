"""Two real servers on loopback: one that sends every request on, and the other one, which is not to hear."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from typing import Any

SECRET = "a-key-in-the-location"  # noqa: S105 - planted, so that messages can be searched for it


@dataclass
class Redirecting:
    """The pair.

    Attributes:
        status: Of every answer of the first server.
        kept: Paths that it serves itself, with their bodies.
        paths: What it was asked for.
        leaked: Connections that the other server got.
        location: Where it sends; `OTHER` means the other server.
    """

    status: int = 307
    kept: dict[str, bytes] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    leaked: list[Any] = field(default_factory=list)
    location: str = f"http://user:{SECRET}@OTHER/v1/chat/completions?key={SECRET}"
    port: int = 0
    other_port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def hosts(self) -> tuple[str, str]:
        return f"127.0.0.1:{self.port}", f"127.0.0.1:{self.other_port}"


class _First(BaseHTTPRequestHandler):
    pair: Redirecting

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.pair.paths.append(self.path)
        body = self.pair.kept.get(self.path)
        self.send_response(self.pair.status if body is None else 200)
        if body is None:
            other = f"127.0.0.1:{self.pair.other_port}"
            self.send_header("Location", self.pair.location.replace("OTHER", other))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    do_GET = do_PUT = do_POST


class _Other(ThreadingHTTPServer):
    pair: Redirecting
    daemon_threads = True

    def get_request(self) -> tuple[socket, Any]:
        """Note that somebody has connected, whatever is said then."""
        connection, address = super().get_request()
        self.pair.leaked.append(address)
        return connection, address


@contextmanager
def redirecting(status: int = 307) -> Iterator[Redirecting]:
    pair = Redirecting(status)
    first = ThreadingHTTPServer(("127.0.0.1", 0), type("First", (_First,), {"pair": pair}))
    first.daemon_threads = True
    other = _Other(("127.0.0.1", 0), BaseHTTPRequestHandler)
    other.pair = pair
    pair.port, pair.other_port = first.server_port, other.server_port
    threads = [
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True)
        for server in (first, other)
    ]
    for thread in threads:
        thread.start()
    try:
        yield pair
    finally:
        for server in (first, other):
            server.shutdown()
            server.server_close()
