"""A batch of slow calls against the best schedule of the same calls.

The server lives in another process and takes a fixed time for every call, however many are under way; so a
run is as quick as its scheduling. Six calls a case with their real dependencies: intent beside votes,
three reflections after the votes, the answer after all of them.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.bench.catalogue import Report
from evals.bench.child_server import ChildServer, instant_server
from evals.bench.ideal_schedule import CALLS_OF_A_CASE, bound, shortest
from evals.bench.result import BenchError, Part, Result
from evals.bench.tap import Tap
from evals.bench.workload import ready, run_cases, six_calls, write_cases
from serving.limits import Limits


@dataclass(frozen=True, slots=True)
class Options:
    """Cases, seconds that the server takes a call, connections from the start on, repeats."""

    cases: int = 200
    seconds: float = 1.0
    max_connections: int = 64
    repeats: int = 1


TINY = {"cases": 2, "seconds": 0.05, "max_connections": 4}


def measure(options: Options, report: Report) -> Result:
    """Run the batch, and schedule it on paper."""
    with tempfile.TemporaryDirectory(prefix="evigraph-bench-") as folder:
        with instant_server() as instant:
            report("warming up")
            warm_up = write_cases(Path(folder), min(options.cases, options.max_connections))
            asyncio.run(_run(options, warm_up, Path(folder) / "warm-up", instant))
        with instant_server(options.seconds) as server:
            cases = write_cases(Path(folder), options.cases)
            taps = []
            for repeat in range(options.repeats):
                report(f"repeat {repeat + 1} of {options.repeats}")
                taps.append(asyncio.run(_run(options, cases, Path(folder) / f"run-{repeat}", server)))
    return result([tap.seconds for tap in taps], len(taps[-1].requests), options)


async def _run(options: Options, cases: Path, folder: Path, server: ChildServer) -> Tap:
    tap = Tap()
    limits = Limits(options.max_connections, options.max_connections)
    await run_cases(tap.on(await ready(six_calls(), cases, server.model)), folder, limits)
    return tap


def result(achieved: Sequence[float], requests: int, options: Options) -> Result:
    """The ratio of the two times.

    Raises:
        BenchError: The run made other calls than the schedule has.
    """
    planned = options.cases * len(CALLS_OF_A_CASE)
    if requests != planned:
        raise BenchError(f"the run sent {requests} requests and the ideal schedule has {planned}")
    steps = shortest(options.cases, options.max_connections)
    ideal = steps * options.seconds
    details: dict[str, Any] = {
        "cases": options.cases,
        "requests": requests,
        "seconds_a_call": options.seconds,
        "max_connections": options.max_connections,
        "ideal_steps": steps,
        "bound_seconds": bound(options.cases, options.max_connections) * options.seconds,
    }
    return Result(
        "latency",
        Part("ideal schedule", "s", (ideal,) * len(achieved)),
        Part("batch run, first request to last reply", "s", tuple(achieved)),
        details=details,
    )
