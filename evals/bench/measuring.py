"""How benchmarks measure: sides that take turns, their times, separate processes, and memory."""

from __future__ import annotations

import gc
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from evals.bench.benchmark import BenchError, Report

T = TypeVar("T")


def turns(sides: Sequence[T], repeats: int, report: Report, of: str = "") -> Iterator[tuple[int, T]]:
    """Every side in every repeat, from 0; the order alternates, so that no side always goes first."""
    for repeat in range(repeats):
        report(f"{of}repeat {repeat + 1} of {repeats}")
        for side in sides if repeat % 2 == 0 else sides[::-1]:
            yield repeat, side


@dataclass(slots=True)
class Times:
    """Seconds of one side in each repeat: processor time of this process, and time on the clock."""

    processor: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Time one repeat; garbage of the other side is collected before."""
        gc.collect()
        processor, wall = processor_seconds(), time.perf_counter()
        yield
        self.wall.append(time.perf_counter() - wall)
        self.processor.append(processor_seconds() - processor)


def processor_seconds() -> float:
    """User and system time of all threads of this process, without its children."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Child(NamedTuple):
    """A finished process: its output and its seconds."""

    output: str
    seconds: float


def run_child(name: str, *arguments: str) -> Child:
    """Run Python in a separate process, so that memory and start-up are measured alone.

    Raises:
        BenchError: It failed.
    """
    begin = time.perf_counter()
    ended = subprocess.run(  # noqa: S603 - this interpreter, this package
        # No package of the current folder is imported instead of ours.
        [sys.executable, "-P", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - begin
    if ended.returncode != 0:
        raise BenchError(f"{name} ended with code {ended.returncode}: {ended.stderr.strip()}")
    return Child(ended.stdout, seconds)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="evigraph-bench-") as name:
        yield Path(name)


def resident_mb() -> float:
    """Resident memory after a full garbage collection, in MB of 2**20 bytes.

    Raises:
        BenchError: The system does not report it, as outside Linux.
    """
    gc.collect()
    return _status("VmRSS")


def peak_mb() -> float:
    """Peak resident memory of this program so far, in MB of 2**20 bytes.

    Not from getrusage, where a child begins with its parent's peak.

    Raises:
        BenchError: The system does not report it, as outside Linux.
    """
    return _status("VmHWM")


def _status(name: str) -> float:
    try:
        status = Path("/proc/self/status").read_text("utf-8")
    except OSError:
        status = ""
    found = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
    if found is None:
        raise BenchError("resident memory is read from /proc/self/status, which this system does not have")
    return int(found[1]) / 1024
