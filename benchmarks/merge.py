"""Time to merge eight shards into one run, compared with copying their files.

Scripted cases are run in eight shards. They are merged in a separate process, `python -m benchmarks.merge
OUT SHARDS...`, which says how long that took and how much memory it needed; the result is checked once.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from cases.selection import Selection, Shard
from cases.texts import plural
from evals.bench.benchmark import BenchError, Part, Report, Result
from evals.bench.measuring import peak_mb, processor_seconds, resident_mb, run_child, scratch_folder, turns
from evals.bench.workload import ready, run_cases, six_calls, write_cases
from runs.move.merge import merge
from runs.record.folder import RunFolder
from runs.upkeep.check import check
from serving.protocol.limits import Limits
from serving.protocol.model_name import parse_model_name

SHARDS = 8


@dataclass(frozen=True, slots=True)
class Options:
    """Cases of all shards together, and repeats of both sides."""

    cases: int = 2000
    repeats: int = 3


TINY = {"cases": 24, "repeats": 2}


def measure(options: Options, report: Report) -> Result:
    """Run the shards once, and merge and copy them in turn.

    Raises:
        BenchError: The merged run is not whole, or has other cases than the shards.
    """
    with scratch_folder() as folder:
        shards = asyncio.run(_run_shards(options.cases, folder, report))
        merging: list[float] = []
        copying: list[float] = []
        grown = 0.0
        processor: list[float] = []
        for _, side in turns((merging, copying), options.repeats, report):
            out = folder / "out"
            if side is merging:
                child = run_child("the merge", "-m", "benchmarks.merge", str(out), *map(str, shards))
                said = json.loads(child.output)
                side.append(said["seconds"])
                processor.append(said["processor_seconds"])
                grown = max(grown, said["grown_mb"])
                _demand_whole(out, options.cases)
            else:
                side.append(_copied(shards, out))
            shutil.rmtree(out)
        size = sum(file.stat().st_size for shard in shards for file in shard.iterdir() if file.is_file())
    return Result(
        "merge",
        Part(f"time to merge {SHARDS} shards", "s", tuple(merging)),
        Part("time to copy their files", "s", tuple(copying)),
        figures={"ms_a_case": 1000 * sum(merging) / len(merging) / options.cases},
        details={
            "shards": SHARDS,
            "megabytes": round(size / 2**20, 1),
            "processor_seconds": round(sum(processor) / len(processor), 2),
            "grown_mb": round(grown, 1),
        },
    )


async def _run_shards(cases: int, folder: Path, report: Report) -> list[Path]:
    path = write_cases(folder, cases)
    shards = []
    for index in range(SHARDS):
        report(f"running shard {index} of {SHARDS}")
        part = Selection(shard=Shard(index, SHARDS))
        assembly = await ready(six_calls(), path, parse_model_name("scripted:auto"), part)
        shards.append(folder / f"shard-{index}")
        await run_cases(assembly, shards[-1], Limits())
    return shards


def _copied(shards: list[Path], out: Path) -> float:
    begin = time.perf_counter()
    for shard in shards:
        shutil.copytree(shard, out / shard.name)
    return time.perf_counter() - begin


def _demand_whole(out: Path, cases: int) -> None:
    found = check(RunFolder(out))
    if found.faults or len(found.statuses) != cases:
        raise BenchError(f"{len(found.statuses)} of {plural(cases, 'case')} merged whole {found.faults[:1]}")


def _timed(out: Path, shards: list[Path]) -> None:
    before, used, begin = resident_mb(), processor_seconds(), time.perf_counter()
    merge(shards, out, lambda text: None, lambda step, done, total: None)
    said = {
        "seconds": time.perf_counter() - begin,
        "processor_seconds": processor_seconds() - used,
        "grown_mb": peak_mb() - before,
    }
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    _timed(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
