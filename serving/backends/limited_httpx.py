"""Limits on hosts and reply sizes for providers' clients, which httpx lacks."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx

from serving.backends.http_json import MAX_REPLY_BYTES
from serving.policy.gate import demand_route
from serving.protocol.errors import CallError

_CODINGS = ("gzip", "deflate")
"""Those that are unpacked piece by piece, so that the limit comes before the memory of a bomb."""

_PROBES = ("TCP_KEEPIDLE", "TCP_KEEPINTVL")
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100)
_KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, name), 60) for name in _PROBES if hasattr(socket, name)),
]
"""A reply may be minutes away, and firewalls drop connections that look idle."""


class GatedTransport:
    """Asks the gate about every request, and sends it by the proxy that the gate names.

    Providers' clients choose hosts themselves, by their own variables and by addresses in replies.
    """

    def __init__(self, transport: Callable[..., Any]) -> None:
        """Take the class of transports, which is httpx's or httpx2's as the client is."""
        self._make = transport
        self._by_proxy: dict[str | None, Any] = {}

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request.

        Raises:
            PolicyError: No text may go to its host, or to the proxy that leads there.
        """
        proxy = demand_route(str(request.url), "model server")
        if proxy not in self._by_proxy:
            self._by_proxy[proxy] = self._make(proxy=proxy, limits=_LIMITS, socket_options=_KEEP_ALIVE)
        return await self._by_proxy[proxy].handle_async_request(request)

    async def aclose(self) -> None:
        for transport in self._by_proxy.values():
            await transport.aclose()

    async def __aenter__(self) -> GatedTransport:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def client_settings(transport: Callable[..., Any]) -> dict[str, Any]:
    """Settings of an asynchronous client: no redirects, no time limit, replies of a limited size.

    The time limit belongs to the exchange. `transport` is `AsyncHTTPTransport` of the client's package, which
    is httpx or httpx2.
    """
    return {
        "transport": GatedTransport(transport),
        "trust_env": False,
        "timeout": None,
        "follow_redirects": False,
        "headers": {"Accept-Encoding": ", ".join(_CODINGS)},
        "event_hooks": {"response": [limit_reply]},
    }


def take_any_size(client: Any) -> None:
    """Take the limit off: replies of batches are files, read piece by piece within other limits."""
    client.event_hooks = {"response": []}


async def limit_reply(response: Any) -> None:
    """Let a response be read up to the limit, at once or as a stream; called before its body is read.

    Raises:
        CallError: It is packed in a way that was not asked for.
    """
    for coding in response.headers.get("content-encoding", "").lower().split(","):
        if coding.strip() not in ("", "identity", *_CODINGS):
            raise CallError("internal", f"the reply is packed as {coding.strip()[:40]!r}")
    read: Callable[..., AsyncIterator[bytes]] = response.aiter_bytes

    async def limited(*arguments: Any, **named: Any) -> AsyncIterator[bytes]:
        size = 0
        async for part in read(*arguments, **named):
            size += len(part)
            if size > MAX_REPLY_BYTES:
                raise CallError("internal", f"the reply is larger than {MAX_REPLY_BYTES // 2**20} MB")
            yield part

    # Whatever reads the body, all of it or line by line, does it by this method.
    vars(response)["aiter_bytes"] = limited
