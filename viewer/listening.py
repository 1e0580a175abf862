"""The server as a process: its socket, its link, its end."""

from __future__ import annotations

import errno
import ipaddress
import socket
import threading
from collections.abc import Callable
from urllib.parse import urlencode

from viewer.guard import TOKEN, new_token
from viewer.library import Library

DEFAULT_PORT = 8377
_BACKLOG = 128
_LAST_ANSWERS = 2
"""Seconds that answers under way may take when the server is ended."""


class PortTaken(OSError):
    """Nobody can listen there, in one line."""


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int | None) -> socket.socket:
    """A socket that listens.

    Args:
        host: A name or an address.
        port: Exactly this one; 0 is any free one; None is the usual one, or any free one if that is taken.

    Raises:
        PortTaken: The port is in use.
        OSError: The host is none of this machine.
    """
    if port is not None:
        return _bound(host, port)
    try:
        return _bound(host, DEFAULT_PORT)
    except PortTaken:
        return _bound(host, 0)


def link(host: str, port: int, token: str) -> str:
    """What opens the page: the key is in it."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104 - shown, not bound
    if ":" in shown and not shown.startswith("["):
        shown = f"[{shown}]"
    return f"http://{shown}:{port}/?{urlencode({TOKEN: token})}"


def serve(
    library: Library,
    bound: socket.socket,
    host: str,
    started: Callable[[str], None],
    ranker: str = "support",
) -> None:
    """Serve until the process is interrupted.

    Args:
        library: The runs.
        bound: A listening socket.
        host: As the user gave it.
        started: Given the link once requests are taken.
        ranker: Verifies answers: packaged, or a folder.
    """
    import uvicorn

    from viewer.server import application

    port = bound.getsockname()[1]
    token = new_token()
    names = ["*", socket.gethostname()] if not is_loopback(host) else []
    app = application(library, port, token, [*names, host], ranker)
    config = uvicorn.Config(
        app,
        log_level="warning",
        # It would hold ids of cases, and the key.
        access_log=False,
        server_header=False,
        lifespan="off",
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=_LAST_ANSWERS,
    )
    threading.Thread(target=library.warm, name="warm", daemon=True).start()
    started(link(host, port, token))
    uvicorn.Server(config).run(sockets=[bound])


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(
                f"port {port} of {host} is in use; choose another --port, or leave it out"
            ) from None
        if error.errno == errno.EACCES:
            raise PortTaken(f"port {port} of {host} needs more rights; choose one above 1023") from None
        raise
    return bound
