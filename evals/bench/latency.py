"""A batch of slow calls against the best schedule of the same calls.

The server runs in another process and takes a fixed time for every call, however many are in progress, so a
run is as fast as its scheduling. A case has six calls with their real dependencies: intent and votes at once,
three reflections after the votes, the answer after all of them.

The ideal is a list schedule of unit jobs with dependencies on identical machines: at each step the free
machines take the ready jobs of the highest priority. With the longest remaining path as the priority this is
Hu's level algorithm (1961), exact for in-trees; a case fans out as well, so the better of two tie rules is
taken, and the bound that no schedule can beat is reported too.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evals.bench.benchmark import BenchError, Part, Report, Result
from evals.bench.live import Tap
from evals.bench.measuring import scratch_folder
from evals.bench.workload import ChildServer, instant_server, ready, run_cases, six_calls, write_cases
from serving.protocol.limits import Limits


@dataclass(frozen=True, slots=True)
class Options:
    """Cases, seconds that the server takes for a call, connections from the start on, repeats."""

    cases: int = 200
    seconds: float = 1.0
    max_connections: int = 64
    repeats: int = 1


TINY = {"cases": 2, "seconds": 0.05, "max_connections": 4}


def measure(options: Options, report: Report) -> Result:
    """Run the batch, and schedule it on paper."""
    with scratch_folder() as folder:
        with instant_server() as instant:
            report("warming up")
            warm_up = write_cases(folder, min(options.cases, options.max_connections))
            asyncio.run(_run(options, warm_up, folder / "warm-up", instant))
        with instant_server(options.seconds) as server:
            cases = write_cases(folder, options.cases)
            taps = []
            for repeat in range(options.repeats):
                report(f"repeat {repeat + 1} of {options.repeats}")
                taps.append(asyncio.run(_run(options, cases, folder / f"run-{repeat}", server)))
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
    return Result(
        "latency",
        Part("ideal schedule", "s", (ideal,) * len(achieved)),
        Part("batch run, first request to last reply", "s", tuple(achieved)),
        details={
            "requests": requests,
            "ideal_steps": steps,
            "bound_seconds": bound(options.cases, options.max_connections) * options.seconds,
        },
    )


CALLS_OF_A_CASE: Mapping[str, Sequence[str]] = {
    "classify": (),
    "label": (),
    "reflect-0": ("label",),
    "reflect-1": ("label",),
    "reflect-2": ("label",),
    "answer": ("classify", "reflect-0", "reflect-1", "reflect-2"),
}
"""Each call with those that must end before it: the flagship with three votes in one request."""


def shortest(cases: int, machines: int, calls: Mapping[str, Sequence[str]] = CALLS_OF_A_CASE) -> int:
    """Steps of the better of two list schedules."""
    remaining = _remaining(calls)
    by_level = _steps(cases, machines, calls, lambda case, call: (-remaining[call], case))
    by_case = _steps(cases, machines, calls, lambda case, call: (case, -remaining[call]))
    return min(by_level, by_case)


def bound(cases: int, machines: int) -> int:
    """Steps that no schedule can beat: all machines always busy, and the longest path of a case."""
    calls = CALLS_OF_A_CASE
    return max(math.ceil(cases * len(calls) / machines), max(_remaining(calls).values()))


def _remaining(calls: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Calls on the longest path from each call to the end of its case, itself included."""
    lengths: dict[str, int] = {}
    for call in reversed(list(calls)):
        following = [lengths[later] for later, needed in calls.items() if call in needed]
        lengths[call] = 1 + max(following, default=0)
    return lengths


def _steps(
    cases: int,
    machines: int,
    calls: Mapping[str, Sequence[str]],
    priority: Callable[[int, str], tuple[int, int]],
) -> int:
    missing = {(case, call): len(needed) for case in range(cases) for call, needed in calls.items()}
    following = {call: [later for later, needed in calls.items() if call in needed] for call in calls}
    ready = [(priority(case, call), case, call) for (case, call), number in missing.items() if number == 0]
    heapq.heapify(ready)
    steps = 0
    while ready:
        steps += 1
        taken = [heapq.heappop(ready) for _ in range(min(machines, len(ready)))]
        for _, case, call in taken:
            for later in following[call]:
                missing[case, later] -= 1
                if missing[case, later] == 0:
                    heapq.heappush(ready, (priority(case, later), case, later))
    return steps
