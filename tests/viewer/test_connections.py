"""Connections that finish no request: they end in time, and leave places for others."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from access import connections
from access.descriptors import BACKLOG, RESERVE, max_connections
from tests.api.services import served

UNFINISHED = {
    "nothing": b"",
    "half a head": b"GET / HTTP/1.1\r\nHost: x\r\nX: ",
    "half a body": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345",
    "half a head after an answer": b"GET /early HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nX: ",
    "a body after an early answer": b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345",
}


async def _whole(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


async def _early(_: Request) -> Response:
    return PlainTextResponse("early")


@contextmanager
def server(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Iterator[tuple[str, int]]:
    monkeypatch.setattr(connections, "HEAD_SECONDS", seconds)
    monkeypatch.setattr(connections, "BODY_SECONDS", seconds)
    routes = [Route(path, end, methods=["GET", "POST"]) for path, end in (("/", _whole), ("/early", _early))]
    with served(Starlette(routes=routes)) as address:
        host, _, port = address.removeprefix("http://").partition(":")
        yield host, int(port)


def opened(address: tuple[str, int], sent: bytes) -> socket.socket:
    connection = socket.create_connection(address, timeout=300)
    connection.sendall(sent)
    return connection


@pytest.mark.parametrize("kind", UNFINISHED)
def test_a_connection_that_finishes_no_request_ends(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    with server(monkeypatch, 0.5) as address, opened(address, UNFINISHED[kind]) as connection:
        said = b""
        try:
            while piece := connection.recv(4096):
                said += piece
        except ConnectionResetError:
            pass
        assert said.count(b"early") == ("early" in kind or "answer" in kind)


def test_a_body_that_comes_at_a_fair_speed_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 20 * 65_536
    head = f"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n".encode()
    # Each piece starts the time anew: the last one comes long after the first.
    with server(monkeypatch, 30) as address, opened(address, head) as connection:
        for _ in range(20):
            connection.sendall(b"x" * 65_536)
        assert connection.makefile("rb").read().endswith(str(size).encode())


def test_many_idle_connections_leave_a_place_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "max_connections", lambda: 20)
    with server(monkeypatch, 300) as address, ExitStack() as stack:
        idle = [stack.enter_context(opened(address, b"GET / HTTP/1.1\r\n")) for _ in range(60)]
        asks = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        answer = stack.enter_context(opened(address, asks)).makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 200 ")
        # The first ones gave their places up.
        with pytest.raises((ConnectionResetError, EOFError)):
            if not idle[0].recv(1):
                raise EOFError


def test_connections_leave_descriptors_for_everything_else() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
        assert max_connections() + BACKLOG + RESERVE == 1024
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
