"""The size limit of replies for providers' clients, which are built on httpx and know none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from serving.backends.http_json import MAX_REPLY_BYTES
from serving.errors import CallError

_CODINGS = ("gzip", "deflate")
"""Those that are unpacked piece by piece, so that the limit comes before the memory of a bomb."""


def client_settings() -> dict[str, Any]:
    """Settings of an asynchronous client of httpx: no redirects, no time limit, replies of a limited size.

    The time limit belongs to the exchange. A proxy comes from the environment as everywhere.
    """
    return {
        "timeout": None,
        "follow_redirects": False,
        "headers": {"Accept-Encoding": ", ".join(_CODINGS)},
        "event_hooks": {"response": [limit_reply]},
    }


def take_any_size(client: Any) -> None:
    """Take the limit off: replies of batches are files, read piece by piece within limits of their own."""
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
