"""The bare side of `overhead`: the same request bodies through OpenAI's own client."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evals.bench.tap import Body

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_EXTRA = frozenset({"structured_outputs"})
"""Fields of vLLM that the client takes only beside its own."""


def open_client(url: str) -> AsyncOpenAI:
    """A client as a careful user has it, without retries. Close it."""
    from openai import AsyncOpenAI

    return AsyncOpenAI(base_url=url, api_key="EMPTY", max_retries=0)


async def send_all(client: AsyncOpenAI, bodies: Sequence[Body], connections: int) -> None:
    """Send all bodies in their order, so many at once, and read every reply's text."""
    waiting = iter(bodies)

    async def work() -> None:
        for body in waiting:
            own = {name: value for name, value in body.items() if name not in _EXTRA}
            extra = {name: value for name, value in body.items() if name in _EXTRA}
            reply = await client.chat.completions.create(**own, extra_body=extra or None)
            assert all(choice.message.content for choice in reply.choices)

    await asyncio.gather(*(work() for _ in range(connections)))
