"""Processor time that a model call costs us, against the same calls through OpenAI's own client.

Our side is a whole batch run: graph, trace, journal and run folder, from its first case on; imports,
connecting and probing come before. Both sides ask a server in another process that answers at once, with the
same request bodies and as many at a time. A call is one HTTP request; three votes are one call.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from evals.bench.catalogue import Report
from evals.bench.child_server import ChildServer, instant_server
from evals.bench.openai_client import open_client, send_all
from evals.bench.resources import processor_seconds
from evals.bench.result import BenchError, Part, Result
from evals.bench.tap import Body, Tap
from evals.bench.workload import ready, run_cases, six_calls, write_cases
from serving.limits import Limits

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    """Cases of a run, repeats of both sides, and requests under way at once on either."""

    cases: int = 100
    repeats: int = 5
    max_connections: int = 16


TINY = {"cases": 2, "repeats": 2, "max_connections": 2}


@dataclass(slots=True)
class Side:
    """What one side has used in each repeat, in seconds."""

    processor: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    async def add(self, work: Awaitable[T]) -> T:
        """Time one repeat."""
        gc.collect()
        processor, wall = processor_seconds(), time.perf_counter()
        done = await work
        self.processor.append(processor_seconds() - processor)
        self.wall.append(time.perf_counter() - wall)
        return done


def measure(options: Options, report: Report) -> Result:
    """Both sides in turn, their order alternating."""
    with tempfile.TemporaryDirectory(prefix="evigraph-bench-") as folder, instant_server() as server:
        return asyncio.run(_measure(options, Path(folder), server, report))


async def _measure(options: Options, folder: Path, server: ChildServer, report: Report) -> Result:
    cases = write_cases(folder, options.cases)
    limits = Limits(options.max_connections, options.max_connections)
    report("warming up")
    bodies = await _record(cases, folder / "warm-up", server, limits)
    ours, bare = Side(), Side()
    samples = 0
    async with open_client(server.url) as client:
        await send_all(client, bodies, options.max_connections)

        for repeat in range(options.repeats):
            report(f"repeat {repeat + 1} of {options.repeats}")
            if repeat % 2:
                await bare.add(send_all(client, bodies, options.max_connections))
            assembly = await ready(six_calls(), cases, server.model)
            before = server.requests()
            run = folder / f"run-{repeat}"
            manifest = await ours.add(run_cases(assembly, run, limits))
            _check(server.requests() - before, len(bodies))
            samples = manifest.sessions[-1].calls
            if not repeat % 2:
                await bare.add(send_all(client, bodies, options.max_connections))
    return result(ours, bare, len(bodies), samples, options)


async def _record(cases: Path, folder: Path, server: ChildServer, limits: Limits) -> list[Body]:
    """The bodies of a run's requests; the server's replies, and so the requests, are always the same."""
    tap = Tap()
    await run_cases(tap.on(await ready(six_calls(), cases, server.model)), folder, limits)
    return [sent.body for sent in tap.requests]


def _check(sent: int, recorded: int) -> None:
    if sent != recorded:
        raise BenchError(f"a run sent {sent} requests where its warm-up sent {recorded}: nothing to compare")


def result(ours: Side, bare: Side, requests: int, samples: int, options: Options) -> Result:
    """The ratio of processor times a request."""
    calls_per_second = [requests / seconds for seconds in ours.wall]
    return Result(
        "overhead",
        Part("processor time of a batch run", "ms a request", _each(ours.processor, requests)),
        Part("processor time of OpenAI's client", "ms a request", _each(bare.processor, requests)),
        details={
            "cases": options.cases,
            "requests": requests,
            "samples": samples,
            "ours_ms_a_sample": round(1000 * sum(ours.processor) / len(ours.processor) / samples, 4),
            "calls_per_second": round(sum(calls_per_second) / len(calls_per_second), 1),
            "bare_calls_per_second": round(len(bare.wall) * requests / sum(bare.wall), 1),
            "max_connections": options.max_connections,
        },
    )


def _each(seconds: Sequence[float], requests: int) -> tuple[float, ...]:
    return tuple(1000 * one / requests for one in seconds)
