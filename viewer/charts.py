"""Charts of a run: their numbers, and SVG files that are light or dark as the reader's screen is."""

from __future__ import annotations

import math
import statistics
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cases.texts import plural
from evals.pages.plots import INK, UP, drawing
from runs.record.case_summary import CaseSummary
from viewer.rendering import duration, number

WIDTH, HEIGHT = 400, 230
"""In CSS pixels; pages reserve this space before a chart has loaded."""

# An image has no page to take colours from. Browsers tell images which scheme the page is shown in.
_STYLE = (
    "<style>:root{--ink:#1b1f24;--muted:#59636e;--up:#0072b2;--down:#b3401f}"
    "@media (prefers-color-scheme:dark){:root{--ink:#e4e8ec;--muted:#9aa5b0;--up:#56b4e9;--down:#f08a63}}"
    "</style>"
)
_POINTS_AN_INCH = 96
_LABELS = 7
# matplotlib's settings are global.
_DRAWING = threading.Lock()
_BINS = 12
_INTENTS = 10


@dataclass(frozen=True, slots=True)
class Figure:
    """A bar chart.

    Attributes:
        across: What the bars stand for.
        up: What their lengths count.
        bars: Label and length.
        note: The numbers in a sentence, for readers who cannot see the chart.
        horizontal: Whether bars are horizontal, for long labels.
    """

    name: str
    title: str
    across: str
    up: str
    bars: tuple[tuple[str, int], ...]
    note: str
    horizontal: bool = False


NAMES = ("votes", "intents", "seconds", "tokens")


def figures(summaries: Sequence[CaseSummary]) -> dict[str, Figure]:
    """The charts of a run by name; the same names whatever the run holds."""
    made = (_votes(summaries), _intents(summaries), _seconds(summaries), _tokens(summaries))
    return {figure.name: figure for figure in made}


def draw(chart: Figure) -> str:
    """A bar chart as an SVG file."""
    with _DRAWING, drawing(chart.name, WIDTH / _POINTS_AN_INCH, HEIGHT / _POINTS_AN_INCH) as made:
        axes = made.axes
        labels = [label for label, _ in chart.bars]
        places, lengths = range(len(labels)), [length for _, length in chart.bars]
        if not chart.bars:
            axes.set_axis_off()
            axes.text(0.5, 0.5, "no case yet", ha="center", va="center", color=INK)
        elif chart.horizontal:
            axes.barh(places, lengths, color=UP, height=0.7)
            axes.set_yticks(places, [label.replace("_", " ")[:32] for label in labels], fontsize=8)
            axes.invert_yaxis()
            axes.set_xlabel(chart.up)
            axes.locator_params(axis="x", nbins=4, integer=True)
            axes.xaxis.set_major_formatter("{x:,.0f}")
        else:
            axes.bar(places, lengths, color=UP, width=0.8)
            every = -(-len(labels) // _LABELS)
            axes.set_xticks(places[::every], labels[::every])
            axes.set_xlabel(chart.across)
            axes.set_ylabel(chart.up)
            axes.locator_params(axis="y", nbins=5, integer=True)
            axes.yaxis.set_major_formatter("{x:,.0f}")
    end = made.svg.index(">") + 1
    return made.svg[:end] + _STYLE + made.svg[end:]


def _votes(summaries: Sequence[CaseSummary]) -> Figure:
    counts: Counter[int] = Counter()
    for row in summaries:
        counts.update(dict(enumerate(row.votes_by_count)))
    most = max((row.votes or 0 for row in summaries), default=0)
    places = range(max([most, *counts], default=0) + 1) if counts else range(0)
    bars = tuple((str(votes), counts[votes]) for votes in places)
    return Figure(
        "votes",
        "Votes",
        "essential votes",
        "sentences",
        bars,
        _listed((plural(int(votes), "vote"), count) for votes, count in bars),
    )


def _intents(summaries: Sequence[CaseSummary]) -> Figure:
    counts = Counter(row.intent or "none" for row in summaries)
    if any(row.outcome for row in summaries) and set(counts) == {"none"}:
        return _outcomes(summaries)
    shown = counts.most_common(_INTENTS)
    rest = counts.total() - sum(count for _, count in shown)
    bars = (*shown, ("others", rest)) if rest else tuple(shown)
    return Figure("intents", "Intents", "primary intent", "cases", bars, _listed(bars), horizontal=True)


def _outcomes(summaries: Sequence[CaseSummary]) -> Figure:
    """In place of intents where a run has none."""
    bars = tuple(Counter(row.outcome or "none" for row in summaries).most_common(_INTENTS))
    return Figure("intents", "Results", "result", "cases", bars, _listed(bars), horizontal=True)


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
        return "No case yet."
    ordered = sorted(values)
    ninth = ordered[min(len(ordered) - 1, math.ceil(0.9 * len(ordered)) - 1)]
    middle = statistics.median(ordered)
    return f"Median {shown(middle)}, 9 of 10 at most {shown(ninth)}, most {shown(ordered[-1])}."


def _listed(bars: Iterable[tuple[str, int]]) -> str:
    listed = ", ".join(f"{label}: {count:,}" for label, count in bars)
    return f"{listed}." if listed else "No case yet."
