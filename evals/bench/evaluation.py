"""How long it takes to score, compare, analyse and export a large finished run.

The commands run as a user runs them, each in a process of its own. The other side reads the same lines and
does nothing with them, so that the ratio says what evaluation costs beyond reading.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cases.plain_jsonl import write_jsonl
from evals.bench.catalogue import Report
from evals.bench.repeated_run import repeat_run, repeated_cases, small_run
from evals.bench.result import BenchError, Part, Result

_READ = """
import sys
from pathlib import Path
from cases.load import find_cases
from runs.folder import RunFolder
run = RunFolder(Path(sys.argv[1]))
files = find_cases([Path(path) for path in run.manifest.inputs.paths])
print(sum(1 for _ in run.cases()), sum(1 for _ in files))
"""


@dataclass(frozen=True, slots=True)
class Options:
    """Cases of the run."""

    cases: int = 10_000


TINY = {"cases": 40}


def measure(options: Options, report: Report) -> Result:
    """Make two runs and time the commands on them.

    Raises:
        BenchError: A command failed.
    """
    with tempfile.TemporaryDirectory(prefix="evigraph-bench-") as name:
        folder = Path(name)
        report(f"making two runs of {options.cases:,} cases")
        cases = folder / "cases.jsonl"
        write_jsonl(cases, repeated_cases(options.cases))
        small = asyncio.run(small_run(folder))
        first, second = (
            str(repeat_run(small, cases, options.cases, folder / f"run-{seed}", seed).path) for seed in (1, 2)
        )
        seconds = {
            "read": _timed([sys.executable, "-c", _READ, first], report),
            "score": _timed(_evigraph("score", first), report),
            "compare": _timed(_evigraph("compare", first, second), report),
            "analyse": _timed(_evigraph("analyse", first), report),
            "export": _timed(_evigraph("export", first, "--out", str(folder / "frames")), report),
        }
    return Result(
        "evaluation",
        Part("score: evidence and answers", "s", (seconds["score"],)),
        Part("reading the run and its cases", "s", (seconds["read"],)),
        details={"cases": options.cases, **{f"{name}_seconds": round(s, 2) for name, s in seconds.items()}},
    )


def _evigraph(*arguments: str) -> list[str]:
    program = "from cli.main import main; main()"
    return [sys.executable, "-c", program, *arguments, "--json"]


def _timed(command: Sequence[str], report: Report) -> float:
    begin = time.perf_counter()
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    seconds = time.perf_counter() - begin
    if ended.returncode != 0:
        raise BenchError(
            f"{' '.join(command[3:5])} ended with code {ended.returncode}: {ended.stderr.strip()}"
        )
    report(f"{command[3] if command[1] == '-c' and len(command) > 4 else 'reading'}: {seconds:.1f} s")
    return seconds
