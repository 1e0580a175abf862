"""How much the service answers: status requests, submissions, and event streams, on one machine.

The service is a separate process, as users start it, with a scripted model that answers at once. The
other side of the ratio is `healthz` of the same process, which only answers.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import yaml

from cases.formats.plain_jsonl import jsonl
from cases.texts import plural
from evals.bench.benchmark import BenchError, Part, Report, Result
from evals.bench.measuring import scratch_folder, turns
from evals.bench.workload import SIX_CALLS, repeated_cases

_START = 600.0
"""Seconds that a start may take on a busy machine."""
_ENDED = ("finished", "interrupted", "failed", "stopped", "cancelled")
_PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class Options:
    """How to measure.

    Attributes:
        requests: Status requests of a repeat.
        clients: That send them side by side.
        submissions: One after the other, while earlier ones run.
        streams: Open at the same time on one run.
        cases: Of that run.
        repeats: Of the status requests and of the other side.
    """

    requests: int = 2000
    clients: int = 8
    submissions: int = 300
    streams: int = 50
    cases: int = 40
    repeats: int = 3


TINY = {"requests": 20, "clients": 2, "submissions": 3, "streams": 3, "cases": 2, "repeats": 1}


def measure(options: Options, report: Report) -> Result:
    """Start the service and ask it.

    Raises:
        BenchError: It did not start, or an answer was wrong.
    """
    with scratch_folder() as folder, _service(folder) as (address, token):
        return asyncio.run(_measure(options, report, address, token))


async def _measure(options: Options, report: Report, address: str, token: str) -> Result:
    limits = aiohttp.TCPConnector(limit=0)
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(address, connector=limits, headers=headers) as http:
        report("warming up")
        id_ = await _submit(http, 1)
        await _until_ended(http, id_)
        rates: dict[str, list[float]] = {f"/v1/runs/{id_}": [], "/healthz": []}
        for _, path in turns([*rates], options.repeats, report):
            rates[path].append(await _rate(http, path, options))
        report(f"{options.streams} streams of a run of {plural(options.cases, 'case')}")
        streams = await _streams(http, options)
    # New connections: the service has closed those that were idle, and a submission is not sent twice.
    async with aiohttp.ClientSession(address, headers=headers) as http:
        report(f"{options.submissions} submissions")
        waits = sorted(await _submissions(http, options.submissions))
    status, bare = rates.values()
    return Result(
        "service",
        Part("status requests", "requests/s", tuple(status)),
        Part("healthz requests", "requests/s", tuple(bare)),
        figures={"submit_p99_ms": _percentile(waits, 0.99) * 1000, "stream_errors": streams["errors"]},
        details={
            "submit_median_ms": round(median(waits) * 1000, 2),
            "submit_longest_ms": round(waits[-1] * 1000, 2),
            "stream_events": streams["events"],
            "streams_seconds": round(streams["seconds"], 2),
        },
    )


async def _rate(http: aiohttp.ClientSession, path: str, options: Options) -> float:
    """Requests a second of some clients side by side."""
    left = iter(range(options.requests))

    async def client() -> None:
        for _ in left:
            async with http.get(path) as answer:
                if answer.status != 200:
                    raise BenchError(f"{path}: {answer.status} {await answer.text()}")
                await answer.read()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(options.clients)))
    return options.requests / (time.perf_counter() - began)


async def _streams(http: aiohttp.ClientSession, options: Options) -> dict[str, float]:
    """Streams of one run from its start to its end; those that miss anything are errors."""
    began = time.perf_counter()
    id_ = await _submit(http, options.cases)
    found = await asyncio.gather(*(_stream(http, id_) for _ in range(options.streams)))
    # A case has more than one decision; all streams have the same, and all ended.
    whole = max(len(one) for one in found)
    errors = sum(len(one) != whole or len(set(one)) != whole or one[-1:] != [found[0][-1]] for one in found)
    if whole <= options.cases:
        raise BenchError(f"the streams of {plural(options.cases, 'case')} had {whole} events at most")
    return {"errors": errors, "events": whole, "seconds": time.perf_counter() - began}


async def _stream(http: aiohttp.ClientSession, id_: str) -> list[str]:
    """The ids of the events of a stream; empty where it broke off before its end."""
    ids, ended = [], False
    async with http.get(f"/v1/runs/{id_}/events", timeout=aiohttp.ClientTimeout(None)) as answer:
        if answer.status != 200:
            return []
        async for line in _lines(answer):
            ended = ended or line == "event: end"
            if line.startswith("id: "):
                ids.append(line)
    return ids if ended else []


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[str]:
    """Lines of any length."""
    rest = b""
    async for piece in answer.content.iter_any():
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line.decode()


async def _submissions(http: aiohttp.ClientSession, count: int) -> list[float]:
    """Seconds that each takes to be taken; runs of earlier ones go on meanwhile."""
    waits = []
    for _ in range(count):
        began = time.perf_counter()
        id_ = await _submit(http, 1)
        waits.append(time.perf_counter() - began)
    await _until_ended(http, id_)
    return waits


async def _submit(http: aiohttp.ClientSession, count: int) -> str:
    lines = b"".join(jsonl(repeated_cases(count)))
    cases = [
        {name: one for name, one in json.loads(line).items() if name != "labels"}
        for line in lines.splitlines()
    ]
    async with http.post("/v1/runs", json={"cases": cases}) as answer:
        if answer.status != 202:
            raise BenchError(f"a submission was refused: {answer.status} {await answer.text()}")
        id_: str = (await answer.json())["id"]
        return id_


async def _until_ended(http: aiohttp.ClientSession, id_: str) -> None:
    while True:
        async with http.get(f"/v1/runs/{id_}") as answer:
            found: dict[str, Any] = await answer.json()
        if found["status"] in _ENDED:
            if found["status"] != "finished" or found["cases"]["failed"]:
                raise BenchError(f"a run did not end well: {found}")
            return
        await asyncio.sleep(_PAUSE)


def _percentile(values: Sequence[float], share: float) -> float:
    """The value that at least this share of all are not above; they are sorted."""
    return values[min(len(values) - 1, max(0, -int(-share * len(values) // 1) - 1))]


@contextmanager
def _service(folder: Path) -> Iterator[tuple[str, str]]:
    """Start a service; its address and its token."""
    recipe, said = folder / "recipe.yaml", folder / "said"
    recipe.write_text(yaml.safe_dump(SIX_CALLS))
    words = ("api", folder / "runs", "--model", "scripted:auto", "--recipe", recipe, "--port", "0")
    many = ("--rate", 10**8, "--max-queued", 10**6, "--max-cases", 10**6, "--drain", 0)
    main = "from cli.main import main; main()"
    with said.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, this package
            [sys.executable, "-P", "-c", main, *map(str, (*words, *many))],
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        end = time.monotonic() + _START
        while "token: " not in (text := said.read_text()):
            if process.poll() is not None or time.monotonic() > end:
                raise BenchError(f"the service did not start: {' '.join(text.split())}")
            time.sleep(_PAUSE)
        named = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
        yield named["API"].partition("/v1")[0], named["token"]
    finally:
        process.terminate()
        process.wait()
