"""Manifests of a corpus: `corpus.json` for the whole, `part.json` for each part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from pydantic import Field

from cases.documents import Document, Skipped
from retrieval.building import BuildManifest, Fields

PART = "part.json"
WORDS = "lower case; runs of letters and figures; NLTK's English stop words; Snowball English"
"""Change together with tokenisation; identifies incompatible corpora."""

_FAULTS_KEPT = 100


class Source(Fields):
    """A file that documents were read from."""

    path: str
    bytes: int
    modified_ns: int
    sha256: str


class Settings(Fields):
    """Settings that affect search results; another value makes another corpus.

    Attributes:
        reader: None where the names of the files decide.
        citations: SHA-256 of the table of citation counts.
    """

    format: Literal[1] = 1
    words: str = WORDS
    k1: float
    b: float
    min_df: int = 1
    reader: str | None = None
    citations: str | None = None


class Tally(Fields):
    """Counts of documents and skipped records.

    Attributes:
        skipped: By reason.
        years: Documents by year, those without one left out.
        faults: The first skipped records, one line each.
        damaged: Where and how files ended before their end, one line each.
    """

    documents: int = 0
    without_year: int = 0
    with_citations: int = 0
    skipped: dict[str, int] = Field(default_factory=dict)
    years: dict[int, int] = Field(default_factory=dict)
    faults: list[str] = Field(default_factory=list)
    damaged: list[str] = Field(default_factory=list)

    def add(self, document: Document) -> None:
        self.documents += 1
        self.with_citations += document.citations is not None
        if document.year is None:
            self.without_year += 1
        else:
            self.years[document.year] = self.years.get(document.year, 0) + 1

    def skip(self, record: Skipped) -> None:
        self._count(record.reason, 1)
        line = f"{record.place}: {record.fault}"
        if record.reason == "damaged file":
            self.damaged.append(line)
        else:
            self._tell([line])

    def skip_duplicate(self) -> None:
        """Count a document whose id an earlier one has."""
        self._count("duplicate id", 1)

    def merge(self, other: Tally) -> None:
        self.documents += other.documents
        self.without_year += other.without_year
        self.with_citations += other.with_citations
        for reason, count in other.skipped.items():
            self._count(reason, count)
        for year, count in other.years.items():
            self.years[year] = self.years.get(year, 0) + count
        self._tell(other.faults)
        self.damaged = [*self.damaged, *other.damaged]

    def _count(self, reason: str, count: int) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + count

    def _tell(self, faults: Iterable[str]) -> None:
        self.faults = [*self.faults, *faults][:_FAULTS_KEPT]


class Place(Fields):
    """Read position in the sources: number of records of this source, after all earlier sources."""

    source: int = 0
    records: int = 0


class PartManifest(Fields):
    """Content of one part, and the start of the next one."""

    tally: Tally
    after: Place


class Manifest(BuildManifest):
    """Content of the whole corpus.

    Attributes:
        parts: How many; their folders are numbered from 0.
        scores: Names the files of scores that belong together.
        terms: Different words, those that are left out not counted.
        mean_length: Words of a document on average, counted likewise.
        versions: Of the packages that texts and scores depend on.
    """

    FILE = "corpus.json"
    WHAT = "corpus"
    COMMAND = "evigraph corpus build PATH..."

    settings: Settings
    sources: list[Source] = Field(default_factory=list)
    tally: Tally = Tally()
    parts: int = 0
    scores: str = ""
    terms: int = 0
    postings: int = 0
    mean_length: float = 0.0
    versions: dict[str, str] = Field(default_factory=dict)


_WIDTHS = (1, 2, 5, 10, 20, 50, 100)
_MAX_YEARS = 16


class Span(NamedTuple):
    """A span of years, both ends included, and the documents in it."""

    first: int
    last: int
    documents: int


def spans(years: Mapping[int, int]) -> list[Span]:
    """Spans of equal width without a gap, ascending."""
    if not years:
        return []
    width = next((width for width in _WIDTHS if _count(years, width) <= _MAX_YEARS), _WIDTHS[-1])
    first = min(years) // width * width
    found = [0] * _count(years, width)
    for year, documents in years.items():
        found[(year - first) // width] += documents
    return [
        Span(first + place * width, first + place * width + width - 1, documents)
        for place, documents in enumerate(found)
    ]


def _count(years: Mapping[int, int], width: int) -> int:
    return max(years) // width - min(years) // width + 1
