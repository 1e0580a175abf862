"""Clients without a key can send headers; they are limited."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from viewer.library import Library
from viewer.listening import MAX_HEAD_BYTES, configured, listen
from viewer.server import application

MB = 1 << 20


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    library, bound = Library([tmp_path]), listen("127.0.0.1", 0)
    port: int = bound.getsockname()[1]
    server = uvicorn.Server(configured(application(library, port, "the-key")))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    yield port
    server.should_exit = True
    thread.join()
    bound.close()
    library.close()


def sent_before_the_end(port: int, piece: bytes, times: int) -> int:
    """How many bytes are taken until the connection is closed; all of them if it stays open."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        sent = 0
        try:
            for _ in range(times):
                connection.sendall(piece)
                sent += len(piece)
            connection.settimeout(1)
            while connection.recv(65536):
                pass
        except TimeoutError:
            return sent
        except OSError:
            return min(sent, sent - 1)
    return sent - 1


@pytest.mark.parametrize("piece", [b"x: " + b"a" * 1000 + b"\r\n", b"a" * 1000])
def test_endless_headers_end_the_connection(port: int, piece: bytes) -> None:
    # Sockets buffer some megabytes on the way.
    assert sent_before_the_end(port, piece, 40_000) < 40_000 * len(piece)


def test_headers_of_browsers_are_taken(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        cookie = b"a" * (MAX_HEAD_BYTES // 2)
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: c=" + cookie + b"\r\n\r\n")
        assert connection.recv(64).startswith(b"HTTP/1.1 403")
