"""What a benchmark gives back: one figure, the two parts that it is made of, and their spread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

Figure = Literal["ratio", "growth_mb"]


class BenchError(Exception):
    """A benchmark that cannot be run as asked, or that did not measure what it should, in one line."""


@dataclass(frozen=True, slots=True)
class Part:
    """One side: what was measured, in which unit, and its value in each repeat."""

    name: str
    unit: str
    values: tuple[float, ...]

    @property
    def value(self) -> float:
        """The mean over the repeats."""
        return fmean(self.values)


@dataclass(frozen=True, slots=True)
class Result:
    """A finished benchmark.

    Attributes:
        benchmark: Its name.
        numerator: One side; as many values as `denominator` has.
        denominator: The other side.
        figure: `ratio` is numerator over denominator; `growth_mb` is numerator minus denominator.
        details: Whatever else helps to read the figure; values that JSON knows.
        figures: Further figures by name, where a benchmark has more than one.
    """

    benchmark: str
    numerator: Part
    denominator: Part
    figure: Figure = "ratio"
    details: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def value(self) -> float:
        """The figure, from the means of both sides."""
        return self._combined(self.numerator.value, self.denominator.value)

    @property
    def repeats(self) -> list[float]:
        """The figure of each repeat."""
        pairs = zip(self.numerator.values, self.denominator.values, strict=True)
        return [self._combined(*pair) for pair in pairs]

    def _combined(self, numerator: float, denominator: float) -> float:
        return numerator - denominator if self.figure == "growth_mb" else numerator / denominator

    def as_json(self) -> dict[str, Any]:
        """One object; `spread` is the lowest and the highest figure of a repeat, `count` the repeats."""
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
