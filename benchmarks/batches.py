"""Processor time of a call in a batch, compared with the same call online.

Both sides run the same cases against the tests' emulator of OpenAI, whose batches have ended at once; its own
time is not counted. A call is one request, or one row of a batch; three votes are one call. In batches a case
is run again from its start in each round: the figure contains what that costs.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from cases.texts import plural
from evals.bench.benchmark import BenchError, Part, Report, Result
from evals.bench.measuring import Times, scratch_folder, turns
from evals.bench.workload import ready, run_cases, six_calls, write_cases
from runs.execute.rounds import BatchOptions
from runs.record.folder import CASES
from serving.protocol.limits import Limits
from serving.protocol.model_name import parse_model_name

ONLINE, BATCHES = "openai", "batch:openai"
"""Beginnings of a model's string."""

_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Options:
    """Cases of a run, repeats of both sides, and concurrent requests online."""

    cases: int = 400
    repeats: int = 5
    max_connections: int = 16


TINY = {"cases": 2, "repeats": 2, "max_connections": 2}


def measure(options: Options, report: Report) -> Result:
    """Both sides in turn.

    Raises:
        BenchError: One side made other calls than the other, or came to other results.
    """
    times = {ONLINE: Times(), BATCHES: Times()}
    calls: dict[str, int] = {}
    results: dict[str, bytes] = {}
    with scratch_folder() as folder, _emulator(folder / "ledger.jsonl") as url:
        cases = write_cases(folder, options.cases)
        # The first one imports what it needs.
        for repeat, side in turns((ONLINE, BATCHES), options.repeats + 1, report):
            out = folder / f"{side.replace(':', '-')}-{repeat}"
            measured = times[side] if repeat else Times()
            calls[side] = asyncio.run(_run(side, measured, cases, out, url, options))
            results[side] = (out / CASES).read_bytes()
    if calls[ONLINE] != calls[BATCHES]:
        raise BenchError(
            f"{plural(calls[BATCHES], 'call')} in batches and {calls[ONLINE]:,} online: nothing to compare"
        )
    if results[ONLINE] != results[BATCHES]:
        raise BenchError("the results in batches are not those online: nothing to compare")
    return _result(times[ONLINE], times[BATCHES], calls[ONLINE], options)


async def _run(side: str, times: Times, cases: Path, folder: Path, url: str, options: Options) -> int:
    """How many calls were made."""
    assembly = await ready(six_calls(), cases, parse_model_name(f"{side}:gpt-4.1@{url}/v1"))
    limits = Limits(options.max_connections, options.max_connections)
    # Without the probes, which only the side online sends.
    before = _billed(folder.parent)
    with times.measured():
        await run_cases(assembly, folder, limits, batches=BatchOptions(poll=_POLL_S))
    return _billed(folder.parent) - before


@contextmanager
def _emulator(ledger: Path) -> Iterator[str]:
    """The address of an emulator in a separate process."""
    command = [sys.executable, "-m", "tests.serving.batches.emulator", "openai", "--work", "0"]
    with subprocess.Popen([*command, "--ledger", ledger], stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


def _billed(folder: Path) -> int:
    return (folder / "ledger.jsonl").read_text("utf-8").count('"billed"')


def _result(online: Times, batches: Times, calls: int, options: Options) -> Result:
    ours, theirs = (tuple(1000 * one / calls for one in side.processor) for side in (batches, online))
    return Result(
        "batches",
        Part("processor time of a run in batches", "ms a call", ours),
        Part("processor time of the run online", "ms a call", theirs),
        figures={"extra_ms_a_call": fmean(ours) - fmean(theirs)},
        details={"requests": calls},
    )
