"""The verdict on a question and the passages behind it, as they were read of dated publications."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cases.records import Case
from cases.texts import plural
from runs.record.trace_file import Line

_WORDS = {"supports": "speaks for yes", "neutral": "is neutral", "refutes": "speaks for no"}
_MANY = {"supports": "speak for yes", "neutral": "are neutral", "refutes": "speak for no"}
_READINGS = {"yes": "supports", "unknown": "neutral", "no": "refutes"}
_UNREAD = "could not be read"
_KINDS = {
    "systematic_review": "systematic review",
    "randomised_trial": "randomised trial",
    "other": "other kind",
}
_CITED = re.compile(r"\[(\d+(?:, \d+)*)\]")


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """A passage.

    Attributes:
        reading: `supports`, `neutral`, `refutes` or `unread`.
        origin: Journal, year, citations and kind of study, as far as they are known.
        text: None where texts are left out.
    """

    id: str
    reading: str
    words: str
    probability: float | None
    title: str
    origin: str
    document: str
    place: str
    text: str | None


@dataclass(frozen=True, slots=True)
class Bar:
    """A share of the readings; `start` and `width` in hundredths of all that were read."""

    reading: str
    words: str
    count: int
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class Group:
    """Readings of one year or one kind of study."""

    name: str
    counts: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the explanation; `cited` are ids of passages, empty for plain text."""

    text: str
    cited: list[str]


@dataclass(frozen=True, slots=True)
class ShownVerdict:
    """A verdict with all that it rests on.

    Attributes:
        tie: Readings that are as frequent as the verdict's, in words; empty without a tie.
        key: The key's verdict; None without one.
        by_year: Oldest first.
    """

    verdict: str
    tie: str
    key: str | None
    as_of: int | None
    passages: list[ShownPassage]
    bars: list[Bar]
    missing: int
    entropy: float | None
    margin: float | None
    by_year: list[Group]
    by_kind: list[Group]
    explanation: list[Stretch]

    @property
    def right(self) -> bool | None:
        """Whether the verdict is the key's; None without a key."""
        return None if self.key is None else self.key == self.verdict


def read_verdict(line: Line, case: Case | None) -> ShownVerdict | None:
    """Read the verdict in a line of `cases.jsonl`; None without one."""
    if not line.get("verdict"):
        return None
    counts, disagreement = line["reading_counts"], line["disagreement"]
    return ShownVerdict(
        verdict=line["verdict"],
        tie=_tie(line["verdict"], counts),
        key=case.gold.verdict if case else None,
        as_of=case.as_of if case else None,
        passages=[_passage(one) for one in line["evidence_passages"]],
        bars=_bars(counts),
        missing=counts["missing"],
        entropy=disagreement["entropy"],
        margin=disagreement["margin"],
        by_year=_groups(disagreement["by_year"], {}),
        by_kind=_groups(disagreement["by_strength"], _KINDS),
        explanation=_stretches(
            line.get("explanation") or "", {one["id"] for one in line["evidence_passages"]}
        ),
    )


def _tie(verdict: str, counts: Mapping[str, int]) -> str:
    most = max(counts[name] for name in _WORDS)
    tied = [name for name in _WORDS if counts[name] == most]
    if not most or len(tied) < 2 or counts[_READINGS.get(verdict, "neutral")] != most:
        return ""
    return " and ".join(f"{most} {_MANY[name]}" for name in tied)


def _passage(one: Mapping[str, Any]) -> ShownPassage:
    cited = None if one["citations"] is None else f"cited {plural(one['citations'], 'time')}"
    known = (one["source"], one["year"] and str(one["year"]), _KINDS.get(one["strength"] or ""), cited)
    sentences = one["sentences"]
    numbers = ", ".join(str(number + 1) for number in sentences or ())
    return ShownPassage(
        id=one["id"],
        reading=one["reading"] or "unread",
        words=_WORDS.get(one["reading"] or "", _UNREAD),
        probability=one["probability"],
        title=one["title"],
        origin=", ".join(part for part in known if part) or "source unknown",
        document=one["document"],
        place="whole abstract" if sentences is None else f"sentence {numbers} of the abstract",
        text=one["text"] or None,
    )


def _bars(counts: Mapping[str, int]) -> list[Bar]:
    total = sum(counts[name] for name in _WORDS)
    bars: list[Bar] = []
    start = 0.0
    for name, words in _MANY.items():
        width = 100 * counts[name] / total if total else 0.0
        bars.append(Bar(name, words, counts[name], round(start, 2), round(width, 2)))
        start += width
    return bars


def _groups(groups: Mapping[str, Mapping[str, int]], names: Mapping[str, str]) -> list[Group]:
    return [
        Group(
            names.get(name, name),
            ", ".join(f"{count} {_MANY[reading]}" for reading, count in counts.items() if count),
        )
        for name, counts in groups.items()
    ]


def _stretches(text: str, known: set[str]) -> list[Stretch]:
    """Citations of passages on the page become links; all else is text."""
    found: list[Stretch] = []
    done = 0
    for match in _CITED.finditer(text):
        ids = match[1].split(", ")
        if set(ids) <= known:
            found += [Stretch(text[done : match.start()], []), Stretch("", ids)]
            done = match.end()
    return [one for one in [*found, Stretch(text[done:], [])] if one.text or one.cited]
