"""Shared by the benchmarks against a live server: cold caches, warm grammars, a bare client."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evals.bench.benchmark import BenchError
from evals.bench.tap import Body, Sent, Tap, api_key
from evals.bench.workload import ready, run_cases
from graph.recipe import Recipe
from serving.limits import Limits
from serving.model_name import ModelName, parse_model_name

if TYPE_CHECKING:
    import aiohttp


Repeats = list[list[Sent]]
"""The requests of one side in each repeat."""


@dataclass(frozen=True, slots=True)
class Live:
    """A server at one address with the cases and the recipe that it is measured with."""

    model: ModelName
    url: str
    cases: Path
    recipe: Recipe
    limits: Limits

    async def run(self, folder: Path) -> list[Sent]:
        """A batch run with cold caches; its requests in the order of sending."""
        tap = Tap(fresh_salt())
        await run_cases(tap.on(await ready(self.recipe, self.cases, self.model)), folder, self.limits)
        return tap.requests

    async def dry_run(self, folder: Path) -> list[Sent]:
        """The run's requests with made-up replies: nothing but the probe is sent."""
        tap = Tap(sends=False)
        await run_cases(tap.on(await ready(self.recipe, self.cases, self.model)), folder, self.limits)
        return tap.requests


def live_model(text: str) -> tuple[ModelName, str]:
    """A model string and its one address.

    Raises:
        BenchError: It names no vLLM server, or several.
    """
    name = parse_model_name(text)
    if name.provider != "vllm" or len(name.base_urls) != 1:
        raise BenchError(
            f"--model {text}: this benchmark needs one vLLM server: vllm:NAME@http://HOST:8000/v1"
        )
    return name, name.base_urls[0].rstrip("/")


def fresh_salt() -> Body:
    """Makes vLLM keep the prefixes of these requests separate from all others: a cold cache."""
    return {"cache_salt": secrets.token_hex(8)}


@asynccontextmanager
async def bare_client(connections: int) -> AsyncIterator[aiohttp.ClientSession]:
    """An asynchronous client with so many connections."""
    import aiohttp

    async with aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {api_key()}"},
        connector=aiohttp.TCPConnector(limit=connections),
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:
        yield session


async def ask(session: aiohttp.ClientSession, url: str, body: Body, sent: list[Sent]) -> Any:
    """Send and record one request; returns the response.

    Raises:
        BenchError: The server refuses it.
    """
    one = Sent("", "", body, time.perf_counter())
    sent.append(one)
    async with session.post(f"{url}/chat/completions", json=body) as response:
        content = await response.json()
        if response.status != 200:
            raise BenchError(f"{url} answers {response.status}: {str(content)[:200]}")
    one.ended = time.perf_counter()
    one.usage = content["usage"]
    return content


async def replay(url: str, recorded: Sequence[Sent], connections: int) -> list[Sent]:
    """Send recorded requests again in their order, so many at once, with cold caches."""
    salt = fresh_salt()
    places = asyncio.Semaphore(connections)
    sent: list[Sent] = []
    async with bare_client(connections) as session:

        async def send(body: Body) -> None:
            async with places:
                await ask(session, url, body | salt, sent)

        await asyncio.gather(*(send(one.body) for one in recorded))
    return sent


async def warm_up(url: str, recorded: Sequence[Sent], connections: int) -> None:
    """Let the server compile every grammar before either side needs it, by a prompt of two words."""
    salt = fresh_salt()
    places = asyncio.Semaphore(connections)
    short = {"messages": [{"role": "user", "content": "warm up"}], "max_tokens": 1, "n": 1}
    async with bare_client(connections) as session:

        async def send(body: Body) -> None:
            async with places:
                await ask(session, url, body | short | salt, [])

        await asyncio.gather(*(send(one.body) for one in recorded))
