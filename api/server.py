"""The service as a process: one address for the API and the pages, and an end that loses nothing."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Literal

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from access.guard import new_token
from access.sessions import signed_in
from access.users import Users
from api.asking import Asking
from api.callers import Caller, OneToken, Rate, Tokens, UserTokens
from api.routes import application as api_application
from api.service import Service
from serving.protocol.addresses import is_loopback, plain_host
from viewer.going_on import GoingOn, Progress
from viewer.library import Library
from viewer.listening import Certificate, configured, link
from viewer.server import application as pages_application
from viewer.signing_in import SigningIn

_OWN = ("/v1/", "/healthz", "/readyz", "/metrics")
_SWITCH = 0.001
"""Seconds after which the runs' thread yields to the requests' thread.

Python's default is five times as long, and a response needs several turns.
"""


class ByService(GoingOn):
    """Lets reviewed cases go on in the service itself, which has their runs."""

    def __init__(self, service: Service) -> None:
        super().__init__()
        self._service = service

    @property
    def possible(self) -> bool:
        return True

    def start(self, run: Path) -> None:
        job = self._service.jobs.get(run.name)
        if job is not None and job.record.closed is None and self._service.ready:
            self._service.runner.enqueue(job, only_reviewed=True)

    def progress(self, run: Path) -> Progress | None:
        job = self._service.jobs.get(run.name)
        if job is None:
            return None
        session = self._service.runner.session(job)
        if session.state != "rest":
            return Progress("running")
        return Progress("failed", session.fault) if session.fault else None


def shown(service: Service, run: Path) -> bool:
    """Whether the current user may see a run, or a fork of it, on the pages."""
    person = signed_in()
    if person is None:
        return True
    job = service.jobs.get(run.resolve().relative_to(service.jobs.root).parts[0])
    return Caller(person.name, person.role).may_read("" if job is None else job.record.submitted_by)


def _split(api: ASGIApp, pages: ASGIApp) -> ASGIApp:
    """The API below its own paths, and the pages everywhere else."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        await (api if path.startswith(_OWN[0]) or path in _OWN else pages)(scope, receive, send)

    return app


class _Server(uvicorn.Server):
    """Drains at the first signal, and ends at once at the second."""

    def __init__(self, config: uvicorn.Config, drain: Callable[[], None]) -> None:
        super().__init__(config)
        self._drain = drain
        self._draining = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._draining:
            self.force_exit = self.should_exit = True
            return
        self._draining = True
        threading.Thread(target=self._end, name="drain").start()

    def _end(self) -> None:
        self._drain()
        self.should_exit = True


def serve(
    service: Service,
    library: Library,
    bound: socket.socket,
    host: str,
    started: Callable[[str, str, str | None], None],
    *,
    ranker: str = "support",
    users: Users | None = None,
    certificate: Certificate | None = None,
    drain: float = 0.0,
) -> None:
    """Serve until a signal, then let the runs end.

    `started` is called with the address, the link of the pages, and the token where there is only one.
    Without `users`, everybody may come in who has it. Runs may take `drain` seconds to end after the signal.
    """
    port = bound.getsockname()[1]
    token = new_token()
    names = ["*", socket.gethostname()] if not is_loopback(plain_host(host)) else []
    rate = Rate(service.offer.limits.per_minute, monotonic)
    tokens: Tokens = OneToken(token, service.person)
    signing_in: SigningIn | None = None
    if users is not None:
        tokens = UserTokens(users, monotonic, lambda: datetime.now(UTC))
        signing_in = SigningIn(users, port, library.roots, library.report)
    pages = pages_application(
        library,
        port,
        token,
        [*names, host],
        ranker,
        ByService(service),
        signing_in=signing_in,
        asking=Asking(service, rate).routes(),
    )
    app = _split(api_application(service, tokens, rate), pages)
    sys.setswitchinterval(_SWITCH)
    server = _Server(configured(app, certificate), lambda: service.drain(drain))
    kind: Literal["https", "http"] = "https" if certificate is not None else "http"
    shown = link(host, port, None, encrypted=kind == "https")
    only = token if users is None else None
    page = link(host, port, only, encrypted=kind == "https").replace("/?", "/ask?", 1)
    started(shown.rstrip("/"), page if only is not None else f"{shown}ask", only)
    try:
        server.run(sockets=[bound])
    finally:
        # Where the server could not even start.
        service.drain(0.0)
        if signing_in is not None:
            signing_in.close()
