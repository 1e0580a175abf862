"""A forward proxy on loopback that answers for every host from one real server, and notes them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from typing import Any
from urllib.parse import urlsplit

_OF_A_CONNECTION = ("connection", "keep-alive", "transfer-encoding", "content-length")


@dataclass
class ForwardProxy:
    """The proxy.

    Attributes:
        port: Of the proxy, on 127.0.0.2.
        to: Port of the server that answers, on 127.0.0.1.
        reached: The address that each connection was made to.
        hosts: The host of each request.
        bodies: What each request held.
        logins: The `Proxy-Authorization` of each request.
    """

    to: int
    port: int = 0
    reached: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.2:{self.port}"


class _Handler(BaseHTTPRequestHandler):
    # With 1.0 it would not answer clients that ask before they send a body.
    protocol_version = "HTTP/1.1"
    proxy: ForwardProxy

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        self.proxy.hosts.append(url.netloc)
        self.proxy.bodies.append(body)
        self.proxy.logins.append(self.headers["Proxy-Authorization"])
        server = HTTPConnection("127.0.0.1", self.proxy.to)
        headers = {
            name: value for name, value in self.headers.items() if name.lower() not in _OF_A_CONNECTION
        }
        server.request(self.command, url._replace(scheme="", netloc="").geturl(), body, headers)
        answer = server.getresponse()
        content = answer.read()
        server.close()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OF_A_CONNECTION:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST


class _Listener(ThreadingHTTPServer):
    proxy: ForwardProxy
    daemon_threads = True

    def get_request(self) -> tuple[socket, Any]:
        connection, address = super().get_request()
        self.proxy.reached.append(connection.getsockname()[0])
        return connection, address


@contextmanager
def forward_proxy(to: int, address: tuple[str, int] = ("127.0.0.2", 0)) -> Iterator[ForwardProxy]:
    proxy = ForwardProxy(to)
    listener = _Listener(address, type("Handler", (_Handler,), {"proxy": proxy}))
    listener.proxy = proxy
    proxy.port = listener.server_port
    threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True).start()
    try:
        yield proxy
    finally:
        listener.shutdown()
        listener.server_close()
