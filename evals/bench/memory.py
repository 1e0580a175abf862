"""Whether a long batch needs more memory than a short one.

A batch of scripted calls runs in a separate process, `python -m evals.bench.memory CASES EVERY`. It reads
its resident memory after a garbage collection once some cases have warmed everything up, and at the end.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cases.texts import plural
from evals.bench.benchmark import BenchError, Part, Report, Result
from evals.bench.measuring import resident_mb, run_child, scratch_folder
from evals.bench.workload import ready, run_cases, six_calls, write_cases
from runs.execute.watcher import Progress
from serving.protocol.limits import Limits
from serving.protocol.model_name import parse_model_name


@dataclass(frozen=True, slots=True)
class Options:
    """Cases of the batch, and the case at which growth begins to count."""

    cases: int = 10_000
    first: int = 500


TINY = {"cases": 6, "first": 2}


def measure(options: Options, report: Report) -> Result:
    """Run the batch in a separate process.

    Raises:
        BenchError: It failed.
    """
    if options.cases <= options.first:
        raise BenchError(f"--cases must be above {options.first}, where growth begins to count")
    with scratch_folder() as folder:
        path = write_cases(folder, options.cases)
        report(f"running {plural(options.cases, 'case')}")
        child = run_child("the measured batch", "-m", "evals.bench.memory", str(path), str(options.first))
    return result(json.loads(child.output), options)


def result(readings: Sequence[dict[str, Any]], options: Options) -> Result:
    """The growth, from readings of `cases` that had ended and resident `mb`."""
    by_cases = {reading["cases"]: float(reading["mb"]) for reading in readings}
    return Result(
        "memory",
        Part(f"resident memory after case {options.cases:,}", "MB", (by_cases[options.cases],)),
        Part(f"resident memory after case {options.first:,}", "MB", (by_cases[options.first],)),
        figure="growth_mb",
        details={"readings": list(readings), "seconds": round(readings[-1]["seconds"], 1)},
    )


@dataclass(slots=True)
class Readings:
    """A watcher that reads memory every so many cases, and at the last one."""

    every: int
    taken: list[dict[str, Any]] = field(default_factory=list)
    _begin: float = field(default_factory=time.perf_counter)

    def notify(self, text: str) -> None:
        """Part of the error if this process fails."""
        sys.stderr.write(f"{text}\n")

    def update(self, progress: Progress) -> None:
        ended = progress.done + progress.failed
        known = self.taken[-1]["cases"] if self.taken else 0
        if ended > known and (ended % self.every == 0 or ended == progress.total):
            seconds = round(time.perf_counter() - self._begin, 1)
            self.taken.append({"cases": ended, "mb": round(resident_mb(), 1), "seconds": seconds})


async def run(cases: Path, every: int) -> list[dict[str, Any]]:
    """Run all cases of a file through a script."""
    assembly = await ready(six_calls(), cases, parse_model_name("scripted:auto"))
    readings = Readings(every)
    with scratch_folder() as folder:
        await run_cases(assembly, folder / "run", Limits(), readings)
    return readings.taken


if __name__ == "__main__":
    taken = asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2])))
    sys.stdout.write(json.dumps(taken) + "\n")
