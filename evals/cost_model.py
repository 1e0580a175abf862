"""What a batch of millions of cases takes: a run's own figures, carried on to a number of cases and GPUs.

A run has measured calls, tokens, processor time and bytes of a case. Throughput of a GPU, seconds of a call,
prices and machines are the user's: no figure of this file is one of hardware.

    python -m evals.cost_model RUN --cases 10000000 --gpus 8 --tokens-per-second 2500 --seconds-per-call 4
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runs.folder import RunFolder
from runs.manifest import RunError

_HOUR_S = 3600.0
_GB = 1e9
_CONNECTIONS = 128
"""Most requests of a process to one server, as runs have it by default."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run took, a case; sessions and files of all its cases, by their number.

    Attributes:
        cases: That have ended.
        calls: Requests, replayed ones not counted.
        input_tokens: Cached ones among them.
        processor_s: Of the process that ran the cases, servers not counted.
        bytes: Of each file of the folder, by its name.
    """

    cases: int
    calls: float
    input_tokens: float
    cached_tokens: float
    output_tokens: float
    processor_s: float
    bytes: dict[str, float]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be run on what; all of it the user's word.

    Attributes:
        tokens_per_second: Read and written together, of one GPU; cached ones take none.
        seconds_per_call: From a request to its reply at that load.
        servers: Replicas of the model.
        processes: Runs side by side, each of a shard.
        cores: For these processes.
        disk_gb: For the run folders and the merged run beside them; None where it does not matter.
        merge_ms: Of `evigraph bench merge`, a case; None leaves the merge out.
        gpu_price: Of a GPU and hour, in any currency; None leaves the cost out.
    """

    cases: int
    gpus: int
    tokens_per_second: float
    seconds_per_call: float
    servers: int = 1
    processes: int = 1
    cores: int = 1
    disk_gb: float | None = None
    merge_ms: float | None = None
    gpu_price: float | None = None


@dataclass(frozen=True, slots=True)
class Projection:
    """What follows, by arithmetic alone.

    Attributes:
        hours: While the GPUs answer, if nothing else holds them up.
        core_hours: Of orchestration.
        disk_gb: Of all files, once.
        under_way: Requests at the same time that keep the GPUs at their throughput.
        loads: How much of what there is would be used, by part; above 1 it holds the GPUs up, or is full.
    """

    hours: float
    gpu_hours: float
    cost: float | None
    core_hours: float
    disk_gb: float
    merge_hours: float | None
    under_way: float
    loads: dict[str, float]

    @property
    def first(self) -> str:
        """The part that breaks first as the batch or the GPUs grow."""
        return max(self.loads, key=self.loads.__getitem__)


def measure(run: RunFolder) -> Measured:
    """Read the figures of a run that has ended.

    Raises:
        RunError: No case has ended, no tokens were counted, or a session was killed, so that its figures
            are not known.
    """
    manifest = run.manifest
    cases = manifest.counts.total
    seconds = [session.processor_seconds for session in manifest.sessions]
    if not cases:
        raise RunError(f"{run.path}: no case has ended, so nothing was measured")
    if any(one is None for one in seconds):
        raise RunError(f"{run.path}: a session was killed, and its processor time is unknown; name another")
    sums = {
        name: sum(getattr(session, name) for session in manifest.sessions) / cases
        for name in ("calls", "input_tokens", "cached_tokens", "output_tokens")
    }
    if sums["input_tokens"] - sums["cached_tokens"] + sums["output_tokens"] <= 0:
        raise RunError(f"{run.path}: no tokens were counted, so nothing says how long GPUs take")
    files = (file for file in sorted(run.path.iterdir()) if file.is_file() and not file.name.startswith("."))
    return Measured(
        cases=cases,
        processor_s=sum(one for one in seconds if one is not None) / cases,
        bytes={file.name: file.stat().st_size / cases for file in files},
        **sums,
    )


def project(measured: Measured, wanted: Wanted) -> Projection:
    """Carry a run's figures on."""
    tokens = measured.input_tokens - measured.cached_tokens + measured.output_tokens
    gpu_hours = wanted.cases * tokens / wanted.tokens_per_second / _HOUR_S
    hours = gpu_hours / wanted.gpus
    core_hours = wanted.cases * measured.processor_s / _HOUR_S
    disk_gb = wanted.cases * sum(measured.bytes.values()) / _GB
    merge_hours = None if wanted.merge_ms is None else wanted.cases * wanted.merge_ms / 1000 / _HOUR_S
    under_way = wanted.cases * measured.calls * wanted.seconds_per_call / (hours * _HOUR_S)
    loads = {
        # One process uses one core.
        "orchestration processor": core_hours / min(wanted.cores, wanted.processes) / hours,
        "connections": under_way / (_CONNECTIONS * wanted.servers * wanted.processes),
    }
    if wanted.disk_gb is not None:
        # The merge leaves the shards as they are.
        loads["disk"] = disk_gb * (1 if merge_hours is None else 2) / wanted.disk_gb
    if merge_hours is not None:
        loads["merge, against the run"] = merge_hours / hours
    cost = None if wanted.gpu_price is None else gpu_hours * wanted.gpu_price
    return Projection(hours, gpu_hours, cost, core_hours, disk_gb, merge_hours, under_way, loads)


def lines(measured: Measured, wanted: Wanted, found: Projection) -> list[str]:
    """For people: what was measured, what was given, what follows."""
    rows = [
        f"measured   {measured.cases:,} cases; a case: {measured.calls:.1f} calls,"
        f" {measured.input_tokens:,.0f} tokens read ({measured.cached_tokens:,.0f} cached),"
        f" {measured.output_tokens:,.0f} written, {1000 * measured.processor_s:.1f} ms of processor",
        "measured   bytes a case: "
        + ", ".join(f"{name} {size:,.0f}" for name, size in measured.bytes.items() if size >= 1),
        f"given      {wanted.cases:,} cases, {wanted.gpus} GPUs of {wanted.tokens_per_second:,.0f} tokens/s,"
        f" {wanted.seconds_per_call:g} s a call, {wanted.servers} servers, {wanted.processes} processes,"
        f" {wanted.cores} cores",
        f"computed   {found.hours:,.1f} hours, {found.gpu_hours:,.0f} GPU hours"
        + ("" if found.cost is None else f", cost {found.cost:,.0f}"),
        f"computed   {found.core_hours:,.0f} core hours of orchestration, {found.disk_gb:,.0f} GB of files,"
        f" {found.under_way:,.0f} requests at once"
        + ("" if found.merge_hours is None else f", merge {found.merge_hours:,.1f} hours"),
    ]
    used = (f"{name} {share:.0%}" for name, share in sorted(found.loads.items(), key=lambda one: -one[1]))
    return [*rows, f"computed   used of what there is: {'; '.join(used)}", f"first      {found.first}"]


def _number(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError(text)
    return number


def _amount(text: str) -> float:
    amount = float(text)
    if not math.isfinite(amount) or amount <= 0:
        raise ValueError(text)
    return amount


def main(arguments: Sequence[str] | None = None) -> None:
    """Print it."""
    parser = argparse.ArgumentParser(prog="python -m evals.cost_model", description=__doc__)
    parser.add_argument("run", type=Path)
    for name in ("cases", "gpus"):
        parser.add_argument(f"--{name}", type=_number, required=True)
    for name in ("tokens-per-second", "seconds-per-call"):
        parser.add_argument(f"--{name}", type=_amount, required=True)
    for name in ("servers", "processes", "cores"):
        parser.add_argument(f"--{name}", type=_number, default=1)
    for name in ("disk-gb", "merge-ms", "gpu-price"):
        parser.add_argument(f"--{name}", type=_amount)
    given = vars(parser.parse_args(arguments))
    try:
        measured = measure(RunFolder(given.pop("run")))
    except RunError as error:
        parser.error(str(error))
    wanted = Wanted(**given)
    sys.stdout.write("\n".join(lines(measured, wanted, project(measured, wanted))) + "\n")


if __name__ == "__main__":
    main()
