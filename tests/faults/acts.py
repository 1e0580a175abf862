"""What a faulty server does to a chat completion in place of its reply."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from tests.faults.faulty_server import Exchange

Act = Callable[[Exchange], Awaitable[None]]

HUGE = 10 * 2**20
"""Characters of a reply that no token limit explains."""

_FOR_EVER = 3600.0


async def engine_dead(exchange: Exchange) -> None:
    """What vLLM's API server says once its engine process is gone."""
    message = "EngineCore encountered an issue. See stack trace (above) for the root cause."
    error = {"message": message, "type": "EngineDeadError", "param": None, "code": 500}
    await exchange.send(500, {"error": error})


async def redirect(exchange: Exchange) -> None:
    """Sends the request, and the case in it, on to a host that the user did not name."""
    await exchange.send(307, b"", {"Location": "http://127.0.0.2:9/v1/chat/completions"})


async def internal_error(exchange: Exchange) -> None:
    """A 500 without a reason."""
    await exchange.send(500, b"Internal Server Error")


async def hang(exchange: Exchange) -> None:
    """Accepts and says nothing."""
    await asyncio.sleep(_FOR_EVER)


def killed_for(seconds: float) -> Act:
    """The process is gone and comes back on the same port."""

    async def act(exchange: Exchange) -> None:
        server = exchange.server
        server.die()
        await asyncio.sleep(seconds)
        await server.listen()

    return act


def too_many(retry_after: str | None) -> Act:
    """429, with the pause that the server asks for; `date` means a second from now."""

    async def act(exchange: Exchange) -> None:
        value = retry_after
        if value == "date":
            # An HTTP date has whole seconds, so now plus two is one to two seconds ahead.
            value = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
        headers = {} if value is None else {"Retry-After": value}
        await exchange.send(429, {"error": {"message": "Too many requests"}}, headers)

    return act


async def reset_in_the_body(exchange: Exchange) -> None:
    """Half of the promised bytes, then a TCP reset."""
    content = exchange.good_bytes()
    await exchange.begin(200, {"Content-Length": str(len(content))})
    await exchange.write(content[: len(content) // 2])
    await asyncio.sleep(0.05)
    exchange.reset()


async def half_a_json(exchange: Exchange) -> None:
    """A whole HTTP response with half of the JSON."""
    content = exchange.good_bytes()
    await exchange.send(200, content[: len(content) // 2])


async def white_space_reply(exchange: Exchange) -> None:
    """The model writes white space until its token limit."""
    response = exchange.good()
    for choice in response["choices"]:
        choice["message"]["content"] = '{"' + "\n" * exchange.body["max_tokens"]
        choice["finish_reason"] = "length"
    await exchange.send(200, response)


async def endless_white_space(exchange: Exchange) -> None:
    """A body that never ends."""
    await exchange.begin(200, {"Transfer-Encoding": "chunked"})
    while True:
        await exchange.write(b"400\r\n" + b" " * 1024 + b"\r\n")
        await asyncio.sleep(0.01)


async def flood(exchange: Exchange) -> None:
    """A body that never ends, as fast as the network takes it."""
    await exchange.begin(200, {"Transfer-Encoding": "chunked"})
    while True:
        await exchange.write(b"100000\r\n" + b" " * 2**20 + b"\r\n")


async def huge_reply(exchange: Exchange) -> None:
    """A well-formed response whose text is far beyond its token limit."""
    response = exchange.good()
    for choice in response["choices"]:
        choice["message"]["content"] = "word " * (HUGE // 5)
    await exchange.send(200, response)


async def other_model(exchange: Exchange) -> None:
    """A good reply, of a model that nobody asked for."""
    await exchange.send(200, {**exchange.good(), "model": "another-model"})


async def slow_loris(exchange: Exchange) -> None:
    """A byte now and then, for ever: each read succeeds, the whole never ends."""
    await exchange.begin(200, {"Content-Length": "1000000"})
    while True:
        await exchange.write(b" ")
        await asyncio.sleep(0.2)
