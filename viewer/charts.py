"""Charts of a run: bars with their numbers."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runs.record.case_summary import CaseSummary
from viewer.rendering import duration, number

_BINS = 12
_INTENTS = 10
_NO_CASE = "No case yet."


@dataclass(frozen=True, slots=True)
class Figure:
    """A bar chart.

    Attributes:
        across: Meaning of the bars.
        up: Unit of their lengths.
        note: Limits of the bars, in a sentence.
    """

    name: str
    title: str
    across: str
    up: str
    bars: tuple[tuple[str, int], ...]
    note: str

    @property
    def most(self) -> int:
        """The length of the longest bar, at least 1."""
        return max((length for _, length in self.bars), default=0) or 1


def figures(summaries: Sequence[CaseSummary]) -> dict[str, Figure]:
    """The charts of a run by name; the same names whatever the run holds."""
    made = (_votes(summaries), _intents(summaries), _seconds(summaries), _tokens(summaries))
    return {figure.name: figure for figure in made}


def _votes(summaries: Sequence[CaseSummary]) -> Figure:
    counts: Counter[int] = Counter()
    for row in summaries:
        counts.update(dict(enumerate(row.votes_by_count)))
    most = max((row.votes or 0 for row in summaries), default=0)
    places = range(max([most, *counts], default=0) + 1) if counts else range(0)
    bars = tuple((str(votes), counts[votes]) for votes in places)
    return Figure("votes", "Votes", "essential votes", "sentences", bars, "" if bars else _NO_CASE)


def _intents(summaries: Sequence[CaseSummary]) -> Figure:
    counts = Counter(row.intent or "none" for row in summaries)
    if any(row.outcome for row in summaries) and set(counts) == {"none"}:
        return _outcomes(summaries)
    shown = counts.most_common(_INTENTS)
    rest = counts.total() - sum(count for _, count in shown)
    bars = (*shown, ("others", rest)) if rest else tuple(shown)
    return Figure("intents", "Intents", "primary intent", "cases", bars, "" if bars else _NO_CASE)


def _outcomes(summaries: Sequence[CaseSummary]) -> Figure:
    """In place of intents where a run has none."""
    bars = tuple(Counter(row.outcome or "none" for row in summaries).most_common(_INTENTS))
    return Figure("intents", "Results", "result", "cases", bars, "")


def _seconds(summaries: Sequence[CaseSummary]) -> Figure:
    values = [row.seconds for row in summaries if row.seconds is not None]
    note = _spread(values, duration)
    return Figure("seconds", "Time of a case", "seconds", "cases", _histogram(values), note)


def _tokens(summaries: Sequence[CaseSummary]) -> Figure:
    values = [float(row.input_tokens + row.output_tokens) for row in summaries]
    read = sum(row.input_tokens for row in summaries)
    written = sum(row.output_tokens for row in summaries)
    note = f"{read:,} read and {written:,} written. {_spread(values, lambda value: number(round(value)))}"
    return Figure("tokens", "Tokens of a case", "tokens", "cases", _histogram(values), note)


def _histogram(values: Sequence[float]) -> tuple[tuple[str, int], ...]:
    """Bins of one round width; each is named by where it begins."""
    if not values:
        return ()
    low, high = min(values), max(values)
    width = _round_up((high - low) / _BINS) if high > low else _round_up(max(high, 1.0) / _BINS)
    first = math.floor(low / width)
    counts = Counter(math.floor(value / width) - first for value in values)
    return tuple((f"{(first + place) * width:,.6g}", counts[place]) for place in range(max(counts) + 1))


def _round_up(width: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, ..."""
    power = 10.0 ** math.floor(math.log10(width))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= width * (1 - 1e-9))


def _spread(values: Sequence[float], shown: Callable[[float], str]) -> str:
    if not values:
        return _NO_CASE
    ordered = sorted(values)
    ninth = ordered[min(len(ordered) - 1, math.ceil(0.9 * len(ordered)) - 1)]
    middle = statistics.median(ordered)
    return f"Median {shown(middle)}, 9 of 10 at most {shown(ninth)}, most {shown(ordered[-1])}."
