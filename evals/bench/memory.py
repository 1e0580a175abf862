"""Whether a long batch needs more memory than a short one.

One batch of scripted calls in a fresh process, its resident memory read after a garbage collection once some
cases have warmed everything up, and at the end.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.bench.catalogue import Report
from evals.bench.result import BenchError, Part, Result
from evals.bench.workload import write_cases


@dataclass(frozen=True, slots=True)
class Options:
    """Cases of the batch, and the case at which growth begins to count."""

    cases: int = 10_000
    first: int = 500


TINY = {"cases": 6, "first": 2}


def measure(options: Options, report: Report) -> Result:
    """Run the batch in a child.

    Raises:
        BenchError: The child did not get through.
    """
    if options.cases <= options.first:
        raise BenchError(f"--cases must be above {options.first}, where growth begins to count")
    with tempfile.TemporaryDirectory(prefix="evigraph-bench-") as folder:
        path = write_cases(Path(folder), options.cases)
        report(f"running {options.cases:,} cases")
        command = [sys.executable, "-m", "evals.bench.memory_run", str(path), str(options.first)]
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 - our own
    if ended.returncode != 0:
        raise BenchError(f"the measured batch ended with code {ended.returncode}")
    return result(json.loads(ended.stdout), options)


def result(readings: Sequence[dict[str, Any]], options: Options) -> Result:
    """The growth, from readings of `cases` ended and resident `mb`."""
    by_cases = {reading["cases"]: float(reading["mb"]) for reading in readings}
    return Result(
        "memory",
        Part(f"resident memory after case {options.cases:,}", "MB", (by_cases[options.cases],)),
        Part(f"resident memory after case {options.first:,}", "MB", (by_cases[options.first],)),
        figure="growth_mb",
        details={
            "cases": options.cases,
            "readings": list(readings),
            "seconds": round(readings[-1]["seconds"], 1),
        },
    )
