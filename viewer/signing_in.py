"""Signing in and out: the pages for it, and the door that named users come in by."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from access.guard import answer_from_our_page, cookie_name, cookie_of, is_from_elsewhere, own_path
from access.sessions import (
    LONGEST,
    Sessions,
    TokenChecks,
    TooManyAttempts,
    sign_in_for_request,
    signed_in,
)
from access.users import Users
from runs.record.audit import Event, record_if_possible
from storage.errors import InputError
from viewer.addresses import ServedAddresses
from viewer.case_handlers import demand_form
from viewer.rendering import duration, render

_MAX_FORM = 16_384
"""Bytes of the form of somebody who has not signed in."""
_POLLED = ("/rows.json", "/state")
"""Paths that pages poll; an open page does not keep a session alive."""
_NO_NAME = "(unknown)"
_WRONG = "This token opens nothing: it is mistyped, has expired, or was replaced or removed."
_ENDED = (
    "Nothing was saved: you are not signed in any more. Sign in again in another tab, then reload this page,"
    " and let the browser send the form again."
)

Clock = Callable[[], float]


class SigningIn:
    """Handlers of signing in and out, and the door of a server with named users."""

    def __init__(
        self,
        users: Users,
        port: int,
        roots: Sequence[Path],
        report: Callable[[str], None] = lambda _: None,
        clock: Clock = monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._users = users
        self._roots = roots
        self._report = report
        self._checks = TokenChecks(users, clock, now)
        self._sessions = Sessions(
            users,
            clock,
            now,
            lambda person, why: self._note("signed_out", person.name, because=why, session=person.session),
        )
        self._cookie = cookie_name(port)
        self._addresses = ServedAddresses()

    def routes(self) -> list[Route]:
        return [
            Route(self._addresses.sign_in(), self._form),
            Route(self._addresses.sign_in(), self._sign_in, methods=["POST"]),
            Route(self._addresses.sign_out(), self._sign_out, methods=["POST"]),
        ]

    async def __call__(
        self, app: ASGIApp, scope: Scope, headers: Mapping[str, str], receive: Receive, send: Send
    ) -> None:
        path: str = scope["path"]
        key = cookie_of(headers, self._cookie_of(scope["scheme"]))
        try:
            person = await run_in_threadpool(self._sessions.person, key, use=not path.endswith(_POLLED))
        except InputError as error:
            await self._closed(error)(scope, receive, send)
            return
        reads = scope["method"] in ("GET", "HEAD")
        open_to_all = path == self._addresses.sign_in() or (reads and path.startswith("/assets/"))
        if person is not None or open_to_all:
            leave = sign_in_for_request(person)
            try:
                await app(scope, receive, send)
            finally:
                leave()
            return
        target = own_path(scope["raw_path"].decode("latin-1").partition("?")[0])
        if query := scope["query_string"].decode("latin-1"):
            target += f"?{query}"
        if reads and key is None and is_from_elsewhere(headers):
            await answer_from_our_page(send, target)
            return
        page = self._page(target) if reads else self._page(fault=_ENDED, resend=True)
        answer = HTMLResponse(page, 401, {"www-authenticate": "Token"})
        await answer(scope, receive, send)

    def close(self) -> None:
        """End all sessions, with the server."""
        self._sessions.close()

    def _form(self, request: Request) -> Response:
        if signed_in() is not None:
            return RedirectResponse(self._addresses.runs(), 303)
        return HTMLResponse(self._page(request.query_params.get("next", "/")))

    async def _sign_in(self, request: Request) -> Response:
        demand_form(request, _MAX_FORM)
        form = await request.form(max_fields=4)
        given, target = form.get("token"), form.get("next")
        if not isinstance(given, str) or not isinstance(target, str | None):
            raise HTTPException(415)
        return await run_in_threadpool(self._take, request, given, own_path(target or "/"))

    def _take(self, request: Request, token: str, target: str) -> Response:
        address = request.client.host if request.client is not None else ""
        try:
            user = self._checks.user(token, address)
            named = user or self._users.named_by(token)
        except TooManyAttempts as error:
            page = self._page(target, fault=f"Too many attempts. Try again in {duration(error.seconds)}.")
            return HTMLResponse(page, 429, {"retry-after": str(int(error.seconds) + 1)})
        except InputError as error:
            return self._closed(error)
        if user is None:
            person = _NO_NAME if named is None else named.name
            self._note("refused", person, what="sign-in", address=address)
            return HTMLResponse(self._page(target, fault=_WRONG), 403)
        cookie = self._cookie_of(request.url.scheme)
        self._sessions.end(cookie_of(request.headers, cookie))
        with contextlib.suppress(InputError):
            self._sessions.sweep()
        key, known = self._sessions.begin(user)
        self._note("signed_in", known.name, role=known.role, address=address, session=known.session)
        answer = RedirectResponse(target, 303)
        answer.set_cookie(
            cookie,
            key,
            max_age=int(LONGEST),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    def _sign_out(self, request: Request) -> Response:
        cookie = self._cookie_of(request.url.scheme)
        self._sessions.end(cookie_of(request.headers, cookie))
        answer = RedirectResponse(self._addresses.sign_in(), 303)
        answer.delete_cookie(cookie, httponly=True, samesite="strict", secure=request.url.scheme == "https")
        return answer

    def _closed(self, error: InputError) -> Response:
        """Lets nobody in; a path of this machine is for its terminal alone."""
        self._report(str(error))
        page = self._page(fault="The list of users cannot be read. The server's terminal says why.")
        return HTMLResponse(page, 503)

    def _page(self, target: str = "/", *, fault: str = "", resend: bool = False) -> str:
        action = self._addresses.sign_in()
        return render(
            "sign_in.html",
            addresses=self._addresses,
            action=action,
            target=target,
            fault=fault,
            again=f"{action}?next={quote('/', safe='')}" if resend else None,
        )

    def _cookie_of(self, scheme: str) -> str:
        # With this prefix, browsers accept it only from this host, encrypted.
        return f"__Host-{self._cookie}" if scheme == "https" else self._cookie

    def _note(self, event: Event, person: str, **facts: str) -> None:
        for root in self._roots:
            record_if_possible(root, event, person=person, **facts)
