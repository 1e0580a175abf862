"""A batch of slow calls on two workers of a Ray cluster against the same batch in one process.

Both sides ask the server of `latency` over the same number of connections, which the workers share. The
cluster is started, and its workers are ready, before a side is timed. The processor time sums all processes
of a side: the one that writes the run, the workers, and Ray's own.

Each side also runs the first quarter of the cases. The additional time of the rest is the cost of further
cases; it excludes one-time costs, which a short batch pays as well.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from cases.texts import plural
from evals.bench.benchmark import BenchError, Part, Report, Result
from evals.bench.measuring import scratch_folder, turns
from evals.bench.workload import ChildServer, instant_server, ready, run_cases, six_calls, write_cases
from runs.on_ray.cases import RayCases, cases_on_ray
from runs.on_ray.cluster import Cluster, demand_usable
from runs.on_ray.worker import Work
from runs.record.manifest import BudgetCaps, RunError
from serving.protocol.limits import Limits

ONE, RAY = "one process", "Ray"


@dataclass(frozen=True, slots=True)
class Options:
    """Cases, seconds that the server takes for a call, connections from the start on, workers, repeats.

    `idle_seconds` are those for which Ray is watched before each batch while it has nothing to do.
    """

    cases: int = 400
    seconds: float = 1.0
    max_connections: int = 64
    workers: int = 2
    repeats: int = 1
    idle_seconds: float = 3.0


TINY = {"cases": 4, "seconds": 0.05, "max_connections": 4, "idle_seconds": 0.1}


@dataclass(slots=True)
class Times:
    """Times of one side, by repeat: wall-clock seconds, and processor seconds of all its processes.

    Attributes:
        wall: Of a batch of all cases.
        processor: The same.
        short: Processor seconds of a batch of the first cases.
        start: Seconds on the clock until the workers were ready, and processor seconds until then.
        idle: Processor seconds of a second in which there was nothing to do.
    """

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    short: list[float] = field(default_factory=list)
    start: list[tuple[float, float]] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)


def measure(options: Options, report: Report) -> Result:
    """Run both sides in turn.

    Raises:
        BenchError: Ray is not installed, or a side made other calls than the other.
    """
    try:
        demand_usable(())
    except RunError as error:
        raise BenchError(str(error)) from None
    times = {ONE: Times(), RAY: Times()}
    requests: dict[str, int] = {}
    with scratch_folder() as folder, instant_server(options.seconds) as server:
        for repeat, side in turns((ONE, RAY), options.repeats, report):
            before = server.requests()
            for number in (first_cases(options), options.cases):
                run = folder / f"{side}-{repeat}-{number}"
                asyncio.run(_run(side, times[side], options, number, folder, run, server, report))
            requests[side] = server.requests() - before
    return result(times, requests, options)


def first_cases(options: Options) -> int:
    """The number of cases of the short batch."""
    return max(1, options.cases // 4)


async def _run(
    side: str,
    times: Times,
    options: Options,
    number: int,
    folder: Path,
    run: Path,
    server: ChildServer,
    report: Report,
) -> None:
    limits = Limits(options.max_connections, options.max_connections)
    assembly = await ready(six_calls(), write_cases(folder, number), server.model)

    async def timed(cluster: RayCases | None) -> None:
        used, began = _processor_seconds(server), time.perf_counter()
        await run_cases(assembly, run, limits, cluster=cluster)
        wall, processor = time.perf_counter() - began, _processor_seconds(server) - used
        if number < options.cases:
            times.short.append(processor)
        else:
            times.wall.append(wall)
            times.processor.append(processor)

    if side == ONE:
        await timed(None)
        return
    work = Work.of(assembly, limits, BudgetCaps())
    used, began = _processor_seconds(server), time.perf_counter()
    async with cases_on_ray(Cluster("", options.workers), work, asyncio.Event(), report) as cluster:
        times.start.append((time.perf_counter() - began, _processor_seconds(server) - used))
        used = _processor_seconds(server)
        await asyncio.sleep(options.idle_seconds)
        times.idle.append((_processor_seconds(server) - used) / options.idle_seconds)
        await timed(cluster)


def result(times: dict[str, Times], requests: dict[str, int], options: Options) -> Result:
    """The ratio of the two times, and the processor time that a case takes on top.

    Raises:
        BenchError: One side made other calls than the other.
    """
    if probes := abs(requests[ONE] - requests[RAY]):
        raise BenchError(f"one side sent {plural(probes, 'request')} more than the other: nothing to compare")
    one, ray = times[ONE], times[RAY]
    extra = fmean(ray.processor) - fmean(one.processor)
    extra_of_short = fmean(ray.short) - fmean(one.short)
    further = options.cases - first_cases(options)
    return Result(
        "ray",
        Part("batch in one process", "s", tuple(one.wall)),
        Part(f"batch on {plural(options.workers, 'worker')} of Ray", "s", tuple(ray.wall)),
        figures={
            "extra_ms_a_case": 1000 * extra / options.cases,
            "extra_ms_a_further_case": 1000 * (extra - extra_of_short) / further,
        },
        details={
            "first_cases": first_cases(options),
            "requests": requests[RAY],
            "one_process_ms_a_case": round(1000 * fmean(one.processor) / options.cases, 2),
            "ray_ms_a_case": round(1000 * fmean(ray.processor) / options.cases, 2),
            "idle_ms_a_second": round(1000 * fmean(ray.idle), 1),
            "start_seconds": round(fmean([wall for wall, _ in ray.start]), 1),
            "start_processor_seconds": round(fmean([processor for _, processor in ray.start]), 1),
            "processors": os.cpu_count(),
        },
    )


def _processor_seconds(server: ChildServer) -> float:
    """Processor seconds of this process and its living descendants, without the server."""
    found: dict[int, tuple[int, float]] = {}
    tick = os.sysconf("SC_CLK_TCK")
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            # It has ended meanwhile.
            continue
        found[int(path.name)] = int(fields[1]), (int(fields[11]) + int(fields[12])) / tick
    if not found:
        raise BenchError("/proc is missing: bench ray needs Linux")

    def is_ours(number: int) -> bool:
        while number in found and number != server.process:
            if number == os.getpid():
                return True
            number = found[number][0]
        return False

    return sum(seconds for number, (_, seconds) in found.items() if is_ours(number))
