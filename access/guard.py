"""Access control: only those who are let in, from pages that the server itself has sent.

Loopback is shared with every other user and with every web page open in a browser. So a request must name one
of our addresses as its host (which a rebound DNS name is not), come from our own page if it writes, and pass
a door: the cookie set by the printed link or by signing in.
"""

from __future__ import annotations

import hmac
import html
import ipaddress
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy of every page: nothing inline, nothing from elsewhere."""
INLINE_STYLE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none';"
    " frame-ancestors 'none'"
)
"""For a report in one file: its styles are inline, and it has no scripts."""

_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    # With no-referrer, browsers send no origin with the forms of our own pages.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(?::(?P<port>\d{1,5}))?")
_PORTS = {"http": 80, "https": 443}
_OWN_FETCH = ("same-origin", "none")
TOKEN = "token"  # noqa: S105 - the name of a parameter
_NO_LINK = (
    "This page needs the link that `evigraph view` has printed in its terminal: it carries a key that is"
    " made anew at each start."
)


Door = Callable[[ASGIApp, Scope, Mapping[str, str], Receive, Send], Awaitable[None]]
"""Serves requests of those who may come in by the application, and answers everybody else."""


class Guard:
    """An ASGI middleware that refuses strangers and sets headers on every response."""

    def __init__(self, app: ASGIApp, port: int, door: Door, names: Iterable[str] = ()) -> None:
        self._app = app
        self._port = port
        self._door = door
        self._names = {"127.0.0.1", "localhost", "[::1]", *names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message.get("headers", [])}
                message["headers"] = [
                    *message.get("headers", []),
                    *(pair for pair in _encoded(_HEADERS) if pair[0] not in present),
                ]
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if refusal := self._refusal(scope, headers):
            await _answer(send_with_headers, 403, refusal)
        else:
            await self._door(self._app, scope, headers, receive, send_with_headers)

    def _refusal(self, scope: Scope, headers: Mapping[str, str]) -> str:
        if not self._is_ours(headers.get("host", ""), scope["scheme"]):
            return (
                "This server answers to the address that `evigraph view` has printed, and to no other name."
            )
        site = headers.get("sec-fetch-site")
        if scope["method"] in ("GET", "HEAD"):
            navigated = headers.get("sec-fetch-mode") == "navigate"
            embeds = site is not None and site not in _OWN_FETCH and not navigated
            return "Pages of others may not load this one." if embeds else ""
        if scope["method"] != "POST":
            return "Only GET, HEAD and POST requests are supported."
        origin = headers.get("origin")
        from_us = origin is None or origin == f"{scope['scheme']}://{headers.get('host')}"
        fetched_by_us = site is None or site == "same-origin"
        identified = origin is not None or site is not None
        return "" if from_us and fetched_by_us and identified else "Only this page itself may write."

    def _is_ours(self, host: str, scheme: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None or int(found["port"] or _PORTS.get(scheme, 80)) != self._port:
            return False
        name = found["name"].lower()
        return name in self._names or ("*" in self._names and _is_numeric(name))


class LinkDoor:
    """Lets those in who have the link that is printed when the server starts."""

    def __init__(self, port: int, token: str) -> None:
        self._token = token.encode()
        self._cookie = cookie_name(port)

    async def __call__(
        self, app: ASGIApp, scope: Scope, headers: Mapping[str, str], receive: Receive, send: Send
    ) -> None:
        if (given := _token_of(scope)) is not None and self._is_token(given):
            await self._let_in(scope, headers, send)
        elif not self._is_token(cookie_of(headers, self._cookie)):
            await _answer(send, 403, _NO_LINK)
        else:
            await app(scope, receive, send)

    def _is_token(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(errors="replace"), self._token)

    async def _let_in(self, scope: Scope, headers: Mapping[str, str], send: Send) -> None:
        """Move the key from the address into a cookie."""
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        rest = urlencode([pair for pair in pairs if pair[0] != TOKEN])
        path = own_path(scope["raw_path"].decode("latin-1").partition("?")[0])
        target = f"{path}?{rest}" if rest else path
        cookie = f"{self._cookie}={self._token.decode()}; Path=/; HttpOnly; SameSite=Strict"
        if scope["scheme"] == "https":
            cookie += "; Secure"
        extra = {"set-cookie": cookie}
        if is_from_elsewhere(headers):
            await answer_from_our_page(send, target, extra)
        else:
            await _answer(send, 303, "", {**extra, "location": target})


def cookie_name(port: int) -> str:
    """The name of the cookie of a server: cookies do not distinguish ports."""
    return f"evigraph_{port}"


def cookie_of(headers: Mapping[str, str], name: str) -> str | None:
    """The value of a cookie; None where the request has none."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return None
    return None if found is None else found.value


def own_path(path: str) -> str:
    """A path of this server: exactly one leading slash, as two would name another host."""
    return "/" + path.lstrip("/\\")


def is_from_elsewhere(headers: Mapping[str, str]) -> bool:
    """Whether a link in another program's page leads here: browsers send no strict cookies with those."""
    return headers.get("sec-fetch-site", "none") not in _OWN_FETCH


async def answer_from_our_page(send: Send, target: str, headers: Mapping[str, str] | None = None) -> None:
    """Answer with a page that redirects to a path, with the strict cookies that external links lack."""
    refresh = f'<meta http-equiv="refresh" content="0; url={html.escape(target)}">'
    await _answer(send, 200, "", headers, head=refresh)


def new_token() -> str:
    """A random key of 192 bits."""
    return secrets.token_urlsafe(24)


def _is_numeric(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _token_of(scope: Scope) -> str | None:
    if scope["method"] not in ("GET", "HEAD"):
        return None
    return dict(parse_qsl(scope["query_string"].decode("latin-1"))).get(TOKEN)


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]


async def _answer(
    send: Send, status: int, text: str, headers: Mapping[str, str] | None = None, head: str = ""
) -> None:
    body = (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">{head}<title>Evigraph</title></head>'
        f"<body><p>{html.escape(text)}</p></body></html>"
    ).encode()
    found = {"content-type": "text/html; charset=utf-8", "content-length": str(len(body)), **(headers or {})}
    await send({"type": "http.response.start", "status": status, "headers": _encoded(found)})
    await send({"type": "http.response.body", "body": body})
