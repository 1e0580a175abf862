"""The benchmarks by name, and how the options of the command line reach them."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, NamedTuple

from evals.bench.result import BenchError, Result

Report = Callable[[str], None]

BENCHMARKS = {
    "overhead": "processor time of a model call in a batch run, over that of OpenAI's own client",
    "latency": "time of an ideal scheduler for a batch of slow calls, over the time that a run takes",
    "saturation": "time of a run against a live server, over that of a bare replay of its requests",
    "naive": "time of serial calls with restated prompts against a live server, over that of a run",
    "replies": "tokens that votes write as full maps of labels, over those of the essential ids alone",
    "evaluation": "time of scoring a large run, over that of reading it; comparing and exporting beside it",
    "memory": "growth of resident memory over a long batch",
    "trace": "processor time of a scripted batch, over that without a trace; bytes stored a byte of text",
    "fusion": "queries a second of MidFusion and LateFusion, over those of EarlyFusion, document encoded",
    "truncation": "time of four rules that cut rankings by their scores, over one pass over those scores",
    "corpus": "queries a second of a corpus, over those of rank_bm25 with the same formula; cost by size",
    "index": "time to build an index of vectors, over that of the bare encoder; stores by size",
    "embedded": "time of plain transformers for votes and reflections, over that of the embedded engine",
}
"""Name to what it measures. `evals/bench/NAME.py` holds `Options`, `TINY` and `measure`."""


FLAGS = ("model", "cases", "repeats", "max_connections", "seconds", "data", "curve")
"""Options that the command line can set; the others of a benchmark belong to what it is."""


class Benchmark(NamedTuple):
    """A benchmark's module, read.

    Attributes:
        options: Its options with their defaults, a frozen dataclass.
        tiny: Values of some of them for the smallest run that still measures both sides.
        measure: Runs it; the second argument is told of what takes long.
    """

    options: type[Any]
    tiny: Mapping[str, Any]
    measure: Callable[[Any, Report], Result]


def load(name: str) -> Benchmark:
    """Import a benchmark.

    Raises:
        BenchError: There is none of this name.
    """
    if name not in BENCHMARKS:
        near = difflib.get_close_matches(name, BENCHMARKS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(BENCHMARKS)}"
        raise BenchError(f"no benchmark {name!r}; {hint}")
    module = importlib.import_module(f"evals.bench.{name}")
    return Benchmark(module.Options, module.TINY, module.measure)


def run(name: str, given: Mapping[str, Any], *, tiny: bool, report: Report) -> Result:
    """Run a benchmark.

    Args:
        name: Which one.
        given: Options that the user set, by the names of its `Options`.
        tiny: Whether its other options are those of the smallest run.
        report: Told of what takes long.

    Raises:
        BenchError: It takes no such option, or lacks one, or could not measure.
    """
    benchmark = load(name)
    known = option_names(benchmark)
    if unknown := [option for option in given if option not in known]:
        takes = ", ".join(_flag(option) for option in known if option in FLAGS)
        raise BenchError(f"bench {name} takes no {_flag(unknown[0])}; its options: {takes}")
    values = {**(benchmark.tiny if tiny else {}), **given}
    if missing := [field.name for field in _required(benchmark) if field.name not in values]:
        raise BenchError(f"bench {name} needs {_flag(missing[0])}")
    return benchmark.measure(benchmark.options(**values), report)


def option_names(benchmark: Benchmark) -> list[str]:
    """The options that a benchmark takes."""
    return [field.name for field in fields(benchmark.options)]


def _required(benchmark: Benchmark) -> list[Any]:
    return [field for field in fields(benchmark.options) if field.default is MISSING]


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"
