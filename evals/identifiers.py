"""Likely personal identifiers in cases, found by Presidio's patterns: a warning, never a guarantee.

No model is loaded, so names are found by their titles alone.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import NamedTuple, Protocol

from cases.records import Case, InvalidCase
from cases.scans import ScanRecord, keep_scan, now
from storage.errors import InputError

_LOWEST = 0.3
"""Score of Presidio from which on a match counts; phone numbers without context have 0.4."""

_PATTERNS = {
    "NAME": (r"\b(?:Dr|Mr|Mrs|Ms|Miss|Prof)\.? ?[A-Z][a-z]+(?:[- ][A-Z][a-z]+)*", 0.6),
    "ID": (
        r"(?i)\b(?:MRN|MR#|medical record(?: number)?|record (?:no|number)|account(?: number)?|patient id)\b"
        r"[\s#:.]*[A-Z0-9-]*\d[A-Z0-9-]{3,}",
        0.6,
    ),
    # Presidio's own asks a list on the network which domains there are.
    "EMAIL_ADDRESS": (r"\b[\w.+%-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b", 1.0),
    "NUMBER": (r"\b\d{7,}\b", 0.4),
}
"""Our own, for what Presidio finds with a language model or not at all: expression and score."""


class Finding(NamedTuple):
    """Something that looks like an identifier. Its text is not kept.

    Attributes:
        field: `narrative`, `question`, `answer`, or `sentence ID`.
        start: In characters of that field.
        end: The same.
    """

    case_id: str
    field: str
    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Scan:
    """Findings and number of cases; `unreadable` lists ids of cases that cannot be read."""

    cases: int
    findings: Sequence[Finding]
    unreadable: Sequence[str]


class _Match(Protocol):
    start: int
    end: int
    entity_type: str
    score: float


class _Recogniser(Protocol):
    """Common interface of Presidio's recognisers."""

    supported_entities: list[str]

    def analyze(self, text: str, entities: list[str]) -> Sequence[_Match]:
        """Matches of the kinds that are named."""


def scan(cases: Iterable[Case | InvalidCase]) -> Scan:
    """Look for identifiers in all texts of cases.

    Raises:
        InputError: Presidio is not installed.
    """
    recognisers = _recognisers()
    findings: list[Finding] = []
    unreadable: list[str] = []
    count = 0
    for case in cases:
        count += 1
        if isinstance(case, InvalidCase):
            unreadable.append(case.id)
            continue
        for field, text in _texts(case):
            findings += [
                Finding(case.id, field, kind, start, end) for kind, start, end in _found(text, recognisers)
            ]
    return Scan(count, findings, unreadable)


def keep(found: Scan, files: Sequence[str]) -> None:
    """Remember of files, by their SHA-256, that they were scanned and with what findings in all of them.

    Raises:
        OSError: It cannot be written.
    """
    by, at = f"presidio-analyzer {version('presidio-analyzer')}", now()
    kinds = dict(Counter(one.kind for one in found.findings).most_common())
    for sha256 in files:
        keep_scan(
            ScanRecord(
                sha256=sha256, at=at, by=by, cases=found.cases, unreadable=len(found.unreadable), kinds=kinds
            )
        )


def _texts(case: Case) -> Iterator[tuple[str, str]]:
    fields = [("narrative", case.narrative), ("question", case.question), ("answer", case.gold.answer)]
    yield from ((name, text) for name, text in fields if text)
    yield from ((f"sentence {sentence.id}", sentence.text) for sentence in case.sentences)


def _found(text: str, recognisers: Sequence[_Recogniser]) -> list[tuple[str, int, int]]:
    """Matches in order; of two that overlap the one that begins first, or is longer."""
    matches = [
        (one.start, -one.end, one.entity_type.removeprefix("US_"))
        for recogniser in recognisers
        for one in recogniser.analyze(text, recogniser.supported_entities)
        if one.score >= _LOWEST
    ]
    kept: list[tuple[str, int, int]] = []
    for start, end, kind in sorted(matches):
        if not kept or start >= kept[-1][2]:
            kept.append((kind, start, -end))
    return kept


def _recognisers() -> list[_Recogniser]:
    try:
        from presidio_analyzer import Pattern, PatternRecognizer
        from presidio_analyzer import predefined_recognizers as known
    except ImportError as error:
        raise InputError(
            "scan", f"needs Presidio ({error})", "pip install -e '.[scan]' in the clone"
        ) from None
    # It says of every recogniser that it was loaded.
    logging.getLogger("presidio-analyzer").setLevel(logging.ERROR)
    own = [
        PatternRecognizer(
            supported_entity=kind, patterns=[Pattern(kind, expression, score)], global_regex_flags=0
        )
        for kind, (expression, score) in _PATTERNS.items()
    ]
    packaged = (known.PhoneRecognizer, known.DateRecognizer, known.UsSsnRecognizer, known.UrlRecognizer)
    others = (known.IpRecognizer, known.CreditCardRecognizer)
    return [*(one() for one in (*packaged, *others)), *own]
