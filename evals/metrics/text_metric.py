"""What a text metric is: how it is declared, what it needs, and how it scores pairs of texts."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cases.submissions.archehr import Task

TEXT_TASKS: tuple[Task, ...] = ("2025", "2026-1", "2026-3")
ANSWER_TASKS: tuple[Task, ...] = ("2025", "2026-3")

Ngram = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextPair:
    """A prediction and what it is compared with.

    Attributes:
        prediction: The system's text.
        reference: The reference, or the context that the prediction should follow from.
        source: What was rewritten (SARI alone reads it).
    """

    prediction: str
    reference: str
    source: str = ""


class TextMetric(Protocol):
    """Scores pairs one by one; their mean is the metric."""

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics that one pass gives: one, or the four of ROUGE."""

    @property
    def spread(self) -> bool:
        """Whether it is Python alone, so that many pairs are worth a process for each processor."""

    def score(self, pairs: Sequence[TextPair]) -> list[tuple[float, ...]]:
        """Score each pair in the order of `names`: 0 to 1, SARI 0 to 100.

        These are the units of the official scorers, which scale means and not scores; BERTScore may be below
        its range, and MEDCON above.
        """


@dataclass(frozen=True, slots=True)
class NotComputed:
    """A metric that cannot be computed here, and what it needs, such as `needs --bertscore-model DIR`."""

    names: tuple[str, ...]
    reason: str


Loaded = TextMetric | NotComputed


class MetricResources(dict[str, Path | None]):
    """What some metrics need and cannot be shipped, by name: weights of gigabytes, licensed vocabularies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """The declaration of a text metric. Its module ends with one, which `registry.METRICS` lists.

    Attributes:
        names: As the leaderboards name what it gives.
        columns: Headers of those that have a column in tables of answers, by name.
        tasks: Those whose texts it scores.
        official: Whether the official scorers of these tasks print it; others are shown as extra values.
        percent: Whether its scores are 0 to 1, and are shown times 100.
        reads_source: Whether it reads the text that was rewritten, and so has pairs of its own.
        resources: What it can use of `MetricResources`, by name.
        load: Loads it, weights included, or says what is missing.
    """

    names: tuple[str, ...]
    columns: Mapping[str, str]
    tasks: tuple[Task, ...]
    load: Callable[[MetricResources], Iterator[Loaded]]
    official: bool = True
    percent: bool = True
    reads_source: bool = False
    resources: Mapping[str, str] = field(default_factory=dict)


def count_ngrams(tokens: Sequence[str], order: int) -> Counter[Ngram]:
    """Count the n-grams of one order, in the order of their first appearance; none in a shorter text."""
    return Counter(zip(*(tokens[start:] for start in range(order)), strict=False))


def overlap(counts: Counter[Ngram], others: Counter[Ngram]) -> int:
    """Size of the multiset intersection: each n-gram counts as often as both have it."""
    get = others.get
    return sum(min(count, get(ngram, 0)) for ngram, count in counts.items())


def missing_packages(*packages: str) -> str:
    """What to install, and how; empty where nothing is missing."""
    missing = [package for package in packages if not is_installed(package)]
    return f"needs {' and '.join(missing)}: pip install 'evigraph[embedded]'" if missing else ""


def is_installed(package: str) -> bool:
    """Whether a package can be imported."""
    return importlib.util.find_spec(package) is not None
