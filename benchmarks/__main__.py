"""`python -m benchmarks NAME`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import SUITE
from cli.measuring.bench import listed, measured
from cli.terminal import emit, print_message
from evals.bench.benchmark import BenchError, run
from storage.errors import InputError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a benchmark; the exit code is 2 if it cannot be run as requested."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="?", help="which benchmark; without it they are listed")
    parser.add_argument("--cases", type=int, help="number of cases in a run")
    parser.add_argument("--repeats", type=int, help="number of repeats of both sides")
    parser.add_argument("--max-connections", type=int, help="concurrent requests")
    parser.add_argument("--data", type=Path, help="for corpus and index: documents (default: invented ones)")
    parser.add_argument(
        "--curve", action="store_const", const=True, help="for corpus and index: measure cost by size too"
    )
    parser.add_argument("--tiny", action="store_true", help="the smallest run, whose figures mean nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(arguments)
    if given.name is None:
        emit(listed(SUITE), as_json=given.json)
        return 0
    options = {name: value for name in SUITE.flags if (value := getattr(given, name)) is not None}
    try:
        result = run(given.name, options, tiny=given.tiny, report=print_message, suite=SUITE)
    except (BenchError, InputError) as error:
        sys.stderr.write(f"benchmarks: {error}\n")
        return 2
    emit(measured(result), as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
