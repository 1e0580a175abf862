"""The measured process of `memory`: `python -m evals.bench.memory_run CASES FIRST` prints its readings."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evals.bench.resources import resident_mb
from evals.bench.workload import ready, run_cases, six_calls
from runs.watcher import Progress
from serving.limits import Limits
from serving.model_name import parse_model_name


@dataclass(slots=True)
class Readings:
    """A watcher that reads memory every so many cases, and at the last one."""

    every: int
    taken: list[dict[str, Any]] = field(default_factory=list)
    _begin: float = field(default_factory=time.perf_counter)

    def remark(self, text: str) -> None:
        """Shown on standard error."""
        sys.stderr.write(f"{text}\n")

    def update(self, progress: Progress) -> None:
        """A case has ended."""
        ended = progress.done + progress.failed
        if ended and (ended % self.every == 0 or ended == progress.total):
            seconds = round(time.perf_counter() - self._begin, 1)
            self.taken.append({"cases": ended, "mb": round(resident_mb(), 1), "seconds": seconds})


async def run(cases: Path, every: int) -> list[dict[str, Any]]:
    """Run all cases of a file through a script."""
    assembly = await ready(six_calls(), cases, parse_model_name("scripted:auto"))
    readings = Readings(every)
    with tempfile.TemporaryDirectory(prefix="evigraph-bench-") as folder:
        await run_cases(assembly, Path(folder) / "run", Limits(), readings)
    return readings.taken


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2])))) + "\n")
