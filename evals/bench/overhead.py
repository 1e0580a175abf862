"""Processor time that a model call costs us, against the same calls through OpenAI's own client.

Our side is a whole batch run: graph, trace, journal and run folder, from its first case on; imports,
connecting and probing come before. Both sides send the same request bodies, as many at a time, to a server in
another process that answers at once. A call is one HTTP request; three votes are one call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evals.bench.benchmark import BenchError, Part, Report, Result
from evals.bench.live import Body, Tap
from evals.bench.measuring import Times, scratch_folder, turns
from evals.bench.workload import ChildServer, instant_server, ready, run_cases, six_calls, write_cases
from serving.protocol.limits import Limits

if TYPE_CHECKING:
    from openai import AsyncOpenAI


_EXTRA = frozenset({"structured_outputs"})
"""Fields of vLLM, which OpenAI's client takes as `extra_body` only."""


@dataclass(frozen=True, slots=True)
class Options:
    """Cases of a run, repeats of both sides, and concurrent requests of either."""

    cases: int = 100
    repeats: int = 5
    max_connections: int = 16


TINY = {"cases": 2, "repeats": 2, "max_connections": 2}


def measure(options: Options, report: Report) -> Result:
    """Both sides in turn."""
    with scratch_folder() as folder, instant_server() as server:
        return asyncio.run(_measure(options, folder, server, report))


async def _measure(options: Options, folder: Path, server: ChildServer, report: Report) -> Result:
    cases = write_cases(folder, options.cases)
    limits = Limits(options.max_connections, options.max_connections)
    report("warming up")
    tap = Tap()
    await run_cases(tap.on(await ready(six_calls(), cases, server.model)), folder / "warm-up", limits)
    # The server's replies, and so the requests, are always the same.
    bodies = [sent.body for sent in tap.requests]
    ours, bare = Times(), Times()
    samples = 0
    async with open_client(server.url) as client:
        await send_all(client, bodies, options.max_connections)
        for repeat, side in turns((ours, bare), options.repeats, report):
            if side is bare:
                with bare.measured():
                    await send_all(client, bodies, options.max_connections)
                continue
            assembly = await ready(six_calls(), cases, server.model)
            before = server.requests()
            with ours.measured():
                manifest = await run_cases(assembly, folder / f"run-{repeat}", limits)
            if (sent := server.requests() - before) != len(bodies):
                raise BenchError(f"a run sent {sent} requests, not the {len(bodies)} of its warm-up")
            samples = manifest.sessions[-1].calls
    return result(ours, bare, len(bodies), samples)


def result(ours: Times, bare: Times, requests: int, samples: int) -> Result:
    """The ratio of processor times per request."""
    calls_per_second = [requests / seconds for seconds in ours.wall]
    return Result(
        "overhead",
        Part("processor time of a batch run", "ms a request", _each(ours.processor, requests)),
        Part("processor time of OpenAI's client", "ms a request", _each(bare.processor, requests)),
        details={
            "requests": requests,
            "samples": samples,
            "ours_ms_a_sample": round(1000 * sum(ours.processor) / len(ours.processor) / samples, 4),
            "calls_per_second": round(sum(calls_per_second) / len(calls_per_second), 1),
            "bare_calls_per_second": round(len(bare.wall) * requests / sum(bare.wall), 1),
        },
    )


def _each(seconds: Sequence[float], requests: int) -> tuple[float, ...]:
    return tuple(1000 * one / requests for one in seconds)


def open_client(url: str) -> AsyncOpenAI:
    """A client as a careful user sets it up, without retries. Close it."""
    from openai import AsyncOpenAI

    return AsyncOpenAI(base_url=url, api_key="EMPTY", max_retries=0)


async def send_all(client: AsyncOpenAI, bodies: Sequence[Body], connections: int) -> None:
    """Send all bodies in their order over so many connections, and read every reply's text."""
    waiting = iter(bodies)

    async def work() -> None:
        for body in waiting:
            own = {name: value for name, value in body.items() if name not in _EXTRA}
            extra = {name: value for name, value in body.items() if name in _EXTRA}
            reply = await client.chat.completions.create(**own, extra_body=extra or None)
            assert all(choice.message.content for choice in reply.choices)

    await asyncio.gather(*(work() for _ in range(connections)))
