"""The server as a process: its socket, its link, and the browser that opens it."""

from __future__ import annotations

import errno
import html
import os
import shutil
import socket
import ssl
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from access.descriptors import BACKLOG, FEWEST_CONNECTIONS, MAX_CONNECTIONS, RESERVE, descriptors
from access.guard import TOKEN, new_token
from serving.policy.gate import demand_listening
from serving.protocol.addresses import is_loopback, plain_host
from storage.errors import InputError
from storage.files import allow_files
from viewer.library import Library

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from access.users import Users
    from viewer.blind_handlers import Blind
    from viewer.going_on import Command

DEFAULT_PORT = 8377
MAX_HEAD_BYTES = 1 << 16
"""Maximum size of a request's first line and headers; beyond it, the connection is closed."""
_LAST_ANSWERS = 2
"""Seconds that responses in progress may still take when the server ends."""


class PortTaken(OSError):
    """A port that cannot be listened on; the message says why."""


def listen(host: str, port: int | None) -> socket.socket:
    """A socket that listens.

    Args:
        host: A name or an address.
        port: Exactly this one; 0 for any free one; None for the default, or any free one if that is taken.

    Raises:
        PolicyError: A run that is open may be shown on this machine only.
        PortTaken: The port is in use.
        OSError: The host is not an address of this machine.
    """
    demand_listening(host)
    allow_files(2 * MAX_CONNECTIONS)
    if port is not None:
        return _bound(host, port)
    try:
        return _bound(host, DEFAULT_PORT)
    except PortTaken:
        return _bound(host, 0)


@dataclass(frozen=True, slots=True)
class Certificate:
    """TLS certificate of the pages: PEM files of a certificate, with its chain, and of its key."""

    chain: Path
    key: Path

    @classmethod
    def checked(cls, chain: Path, key: Path) -> Certificate:
        """Two files that can be used.

        Raises:
            InputError: They cannot.
        """
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                # A password would be asked for on the terminal, by a server that nobody may be watching.
                chain,
                key,
                password=lambda: b"",
            )
        except OSError as error:
            # Such as one that is missing, not PEM, or of another key.
            said = error.strerror or str(error)
            raise InputError(chain, f"cannot be used with {key}: {said}") from None
        return cls(chain, key)


def link(host: str, port: int, token: str | None, *, encrypted: bool = False) -> str:
    """The link that opens the page; it contains the key, where there is one."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104 - shown, not bound
    if ":" in shown and not shown.startswith("["):
        shown = f"[{shown}]"
    end = "" if token is None else f"?{urlencode({TOKEN: token})}"
    return f"{'https' if encrypted else 'http'}://{shown}:{port}/{end}"


def serve(
    library: Library,
    bound: socket.socket,
    host: str,
    started: Callable[[str], None],
    ranker: str = "support",
    command: Command | None = None,
    blind: Blind | None = None,
    users: Users | None = None,
    certificate: Certificate | None = None,
) -> None:
    """Serve until the process is interrupted."""
    import uvicorn

    from viewer.going_on import GoingOn
    from viewer.server import application
    from viewer.signing_in import SigningIn

    port = bound.getsockname()[1]
    token = new_token()
    signing_in = None if users is None else SigningIn(users, port, library.roots, library.report)
    names = ["*", socket.gethostname()] if not is_loopback(plain_host(host)) else []
    going_on = GoingOn(command)
    app = application(library, port, token, [*names, host], ranker, going_on, blind, signing_in)
    threading.Thread(target=library.warm, name="warm", daemon=True).start()
    started(link(host, port, token if users is None else None, encrypted=certificate is not None))
    try:
        uvicorn.Server(configured(app, certificate)).run(sockets=[bound])
    finally:
        if signing_in is not None:
            signing_in.close()
        going_on.close()


class _Listener(socket.socket):
    """Accepts no connection that would take one of the last descriptors.

    Connections count from the end of their TLS handshake on, and descriptors are taken before it.
    """

    def accept(self) -> tuple[socket.socket, Any]:
        """A new connection.

        Raises:
            ConnectionAbortedError: There are too many.
        """
        connection, address = super().accept()
        if connection.fileno() >= max(FEWEST_CONNECTIONS, descriptors() - RESERVE):
            connection.close()
            raise ConnectionAbortedError
        return connection, address


def configured(app: ASGIApp, certificate: Certificate | None = None) -> uvicorn.Config:
    """How the application is served."""
    import uvicorn

    from access.connections import LimitedConnection

    return uvicorn.Config(
        app,
        http=LimitedConnection,
        # uvloop accepts by itself, and not by `_Listener`.
        loop="asyncio",
        backlog=BACKLOG,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        log_level="warning",
        # It would contain case ids and the key.
        access_log=False,
        server_header=False,
        lifespan="off",
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=_LAST_ANSWERS,
        ssl_certfile=None if certificate is None else certificate.chain,
        ssl_keyfile=None if certificate is None else certificate.key,
    )


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = _Listener(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
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


def has_display() -> bool:
    """Whether a browser can open a window here."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_page(link: str) -> Path | None:
    """Open a link through a file that only this user can read.

    Arguments of processes are visible to everybody on the machine, and the link contains the key.

    Returns:
        The folder of that file, for `forget`; None if no browser was found.
    """
    folder = Path(tempfile.mkdtemp(prefix="evigraph-view-"))
    file = folder / "open.html"
    refresh = f'<meta http-equiv="refresh" content="0; url={html.escape(link)}">'
    file.write_text(f'<!DOCTYPE html><meta charset="utf-8">{refresh}', "utf-8")
    if webbrowser.open(file.as_uri()):
        return folder
    forget(folder)
    return None


def forget(folder: Path | None) -> None:
    """Remove the folder that `open_page` made."""
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
