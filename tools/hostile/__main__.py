"""Gives hostile files, servers and requests to the commands and the viewer, and counts the outcomes.

    python -m tools.hostile 1000

prints a table by kind, and each fault with the seed that repeats it: `python -m tools.hostile 1 SEED`.
A third argument draws only `files`, `servers` or `requests`.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

from tools.hostile import files, requests, servers
from tools.hostile.judging import Outcome
from tools.hostile.worker import Worker

SHARES = {"files": 0.6, "servers": 0.15, "requests": 0.25}
"""Of all inputs; one to a server takes seconds, one to the viewer milliseconds."""


def outcomes(count: int, first: int = 0, only: str = "") -> Iterator[tuple[int, Outcome]]:
    """The outcome of each input, with its seed: the same seed is the same input.

    Args:
        count: How many.
        first: Seed of the first one.
        only: One of `SHARES`; all of them where it is empty.
    """
    worker = Worker()
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        shared = Path(folder) / "shared"
        shared.mkdir()
        files.prepare(worker, shared)
        with requests.Viewer(shared) as viewer:
            try:
                for seed in range(first, first + count):
                    draw = random.Random(seed)
                    marker = f"MARK{seed:05}Z"
                    base = Path(folder) / str(seed)
                    base.mkdir()
                    (group,) = draw.choices([*SHARES], [*SHARES.values()])
                    group = only or group
                    if group == "files":
                        kind = draw.choice([*files.KINDS])
                        yield seed, files.play(kind, worker, shared, base, marker, draw)
                    elif group == "servers":
                        yield seed, servers.play(worker, shared, base, marker, draw)
                    else:
                        yield seed, requests.play(viewer, marker, draw)
                    shutil.rmtree(base)
            finally:
                worker.end()


def table(found: list[Outcome]) -> str:
    """Counts by kind."""
    ends = ("refused", "failed in part", "taken")
    counts: dict[str, Counter[str]] = {}
    for one in found:
        for row in (one.kind, "all"):
            counted = counts.setdefault(row, Counter())
            counted[one.end] += 1
            counted["inputs"] += 1
            counted["faults"] += bool(one.faults)
    columns = ("inputs", *ends, "faults")
    lines = [f"{'kind':<24}" + "".join(f"{column:>16}" for column in columns)]
    for row in (*sorted(counts.keys() - {"all"}), "all"):
        lines.append(f"{row:<24}" + "".join(f"{counts[row][column]:>16}" for column in columns))
    return "\n".join(lines)


def main(count: int, first: int = 0, only: str = "") -> int:
    """Print a line for each fault, and the table; after an interrupt, for the inputs until then.

    Returns:
        1 if there was a fault, else 0.
    """
    found: list[Outcome] = []
    began = monotonic()
    # So that a background process can be ended as by Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        for seed, one in outcomes(count, first, only):
            found.append(one)
            for fault in one.faults:
                sys.stdout.write(f"seed {seed}, {one.kind}, {one.trick}: {fault}\n")
            sys.stdout.flush()
            if len(found) % 20 == 0:
                sys.stderr.write(f"{len(found)} of {count}, {monotonic() - began:.0f} s\n")
    sys.stdout.write(f"\n{table(found)}\n")
    return int(any(one.faults for one in found))


if __name__ == "__main__":
    count, first, only = [*sys.argv[1:], *("0", "")[len(sys.argv) - 2 :]]
    sys.exit(main(int(count), int(first), only))
