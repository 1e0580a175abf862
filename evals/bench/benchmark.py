"""The benchmarks by name, how they are run, and their results: a figure, its two parts, and their spread."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from statistics import fmean
from types import ModuleType
from typing import Any, Literal

Figure = Literal["ratio", "growth_mb"]
Report = Callable[[str], None]
"""Called with a line about anything that takes long."""

BENCHMARKS = {
    "overhead": "processor time of a model call in a batch run, relative to OpenAI's own client",
    "latency": "time of an ideal scheduler for a batch of slow calls, relative to a run",
    "ray": "time of a batch of slow calls in one process, relative to two workers of a Ray cluster",
    "saturation": "time of a run against a live server, relative to a bare replay of its requests",
    "naive": "time of serial calls with restated prompts against a live server, relative to a run",
    "memory": "growth of resident memory over a long batch",
    "fusion": "queries a second of MidFusion and LateFusion, relative to EarlyFusion, document encoded",
    "embedded": "speed of the embedded engine in writing, reading and questions, relative to llama.cpp",
    "verification": "AUC of all signals on wrong statements, relative to the model alone",
}
"""Benchmarks of an installation, each with its description."""


class BenchError(Exception):
    """The benchmark cannot run as requested, or its measurement is invalid; a one-line message."""


@dataclass(frozen=True, slots=True)
class Part:
    """One side: quantity, unit, and its value in each repeat."""

    name: str
    unit: str
    values: tuple[float, ...]

    @property
    def value(self) -> float:
        return fmean(self.values)


@dataclass(frozen=True, slots=True)
class Result:
    """A finished benchmark.

    Attributes:
        benchmark: Its name.
        numerator: One side; as many values as `denominator` has.
        denominator: The other side.
        figure: `ratio` is numerator over denominator, `growth_mb` numerator minus denominator.
        details: Whatever else helps to read the figure, as JSON values.
        figures: Further figures by name, if a benchmark has more than one.
        rows: A table for people, its header first.
    """

    benchmark: str
    numerator: Part
    denominator: Part
    figure: Figure = "ratio"
    details: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    rows: Sequence[Sequence[str]] = ()

    @property
    def value(self) -> float:
        return self._combined(self.numerator.value, self.denominator.value)

    @property
    def repeats(self) -> list[float]:
        pairs = zip(self.numerator.values, self.denominator.values, strict=True)
        return [self._combined(*pair) for pair in pairs]

    def _combined(self, numerator: float, denominator: float) -> float:
        return numerator - denominator if self.figure == "growth_mb" else numerator / denominator

    def as_json(self) -> dict[str, Any]:
        """The result as JSON; `spread` is over the figures of `count` repeats."""
        return {
            "benchmark": self.benchmark,
            self.figure: round(self.value, 4),
            **{name: round(value, 4) for name, value in self.figures.items()},
            "numerator": _part(self.numerator),
            "denominator": _part(self.denominator),
            "spread": {"min": round(min(self.repeats), 4), "max": round(max(self.repeats), 4)},
            "count": len(self.repeats),
            "details": dict(self.details),
        }


def _part(part: Part) -> dict[str, Any]:
    return {"name": part.name, "unit": part.unit, "value": round(part.value, 4)}


@dataclass(frozen=True, slots=True)
class Suite:
    """Benchmarks that one command runs.

    Attributes:
        package: Has a module of each name, with `Options`, `TINY` and `measure`.
        command: Begins messages about a benchmark's options.
        benchmarks: Descriptions by name.
        flags: Options that the command line can set; a benchmark's other options are fixed.
    """

    package: str
    command: str
    benchmarks: Mapping[str, str]
    flags: tuple[str, ...]


INSTALLATION = Suite(
    "evals.bench",
    "bench",
    BENCHMARKS,
    ("model", "cases", "repeats", "max_connections", "seconds", "data", "out", "reply"),
)


def load(name: str, suite: Suite = INSTALLATION) -> ModuleType:
    """Import a benchmark: its `Options`, their values in the smallest run (`TINY`), and `measure`.

    Raises:
        BenchError: There is none of this name.
    """
    if name not in suite.benchmarks:
        near = difflib.get_close_matches(name, suite.benchmarks, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(suite.benchmarks)}"
        raise BenchError(f"no benchmark {name!r}; {hint}")
    return importlib.import_module(f"{suite.package}.{name}")


def run(
    name: str, given: Mapping[str, Any], *, tiny: bool, report: Report, suite: Suite = INSTALLATION
) -> Result:
    """Run a benchmark.

    Raises:
        BenchError: It has no such option, lacks a required one, or could not measure.
    """
    benchmark = load(name, suite)
    known = {field.name: field.default is MISSING for field in fields(benchmark.Options)}
    if unknown := [option for option in given if option not in known]:
        takes = ", ".join(_flag(option) for option in known if option in suite.flags)
        raise BenchError(f"{suite.command} {name} takes no {_flag(unknown[0])}; its options: {takes}")
    values = {**(benchmark.TINY if tiny else {}), **given}
    if missing := [option for option, required in known.items() if required and option not in values]:
        raise BenchError(f"{suite.command} {name} needs {_flag(missing[0])}")
    options = benchmark.Options(**values)
    result: Result = benchmark.measure(options, report)
    chosen = {
        option: value for option, value in asdict(options).items() if isinstance(value, str | int | float)
    }
    return replace(result, details={**chosen, **result.details})


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"
