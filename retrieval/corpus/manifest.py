"""What a corpus says of itself: `corpus.json` of the whole, `part.json` of each part."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from cases.errors import InputError
from cases.files import opened, write_atomically
from cases.json_border import first_fault
from cases.literature import Document, Skipped

MANIFEST = "corpus.json"
PART = "part.json"
WORDS = "lower case; runs of letters and figures; NLTK's English stop words; Snowball English"
"""Whoever changes how texts become terms changes this too: it tells corpora apart."""

_FAULTS_KEPT = 100


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Source(_Model):
    """A file that documents were read from."""

    path: str
    bytes: int
    modified_ns: int
    sha256: str


class Settings(_Model):
    """What decides which documents are found; another value makes another corpus.

    Attributes:
        reader: None where the names of the files decide.
        citations: SHA-256 of the table of citation counts.
        min_df: Words of fewer documents than this are left out.
    """

    format: Literal[1] = 1
    words: str = WORDS
    k1: float
    b: float
    min_df: int = 1
    reader: str | None = None
    citations: str | None = None


class Tally(_Model):
    """Counts of documents and of what was skipped.

    Attributes:
        skipped: By reason.
        years: Documents by year, those without one left out.
        faults: The first skipped records, one line each.
        damaged: Where and how files ended before their end, one line each.
    """

    documents: int = 0
    without_year: int = 0
    with_citations: int = 0
    skipped: dict[str, int] = {}
    years: dict[int, int] = {}
    faults: list[str] = []
    damaged: list[str] = []

    def add(self, document: Document) -> None:
        """Count a document."""
        self.documents += 1
        self.with_citations += document.citations is not None
        if document.year is None:
            self.without_year += 1
        else:
            self.years[document.year] = self.years.get(document.year, 0) + 1

    def skip(self, record: Skipped) -> None:
        """Count a record that gave no document."""
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
        """Count what `other` has counted too."""
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


class Place(_Model):
    """How far the sources were read: so many records of this one, and all of those before it."""

    source: int = 0
    records: int = 0


class PartManifest(_Model):
    """What one part holds, and where the next one begins."""

    tally: Tally
    after: Place


class Manifest(_Model):
    """What the whole corpus holds.

    Attributes:
        complete: Whether it can be searched; False while it is built.
        parts: How many; their folders are numbered from 0.
        scores: Names the files of scores that belong together.
        terms: Different words, those that are left out not counted.
        mean_length: Words of a document on average, counted likewise.
        versions: Of the packages that texts and scores depend on.
    """

    complete: bool = False
    settings: Settings
    sources: list[Source] = []
    tally: Tally = Tally()
    parts: int = 0
    scores: str = ""
    terms: int = 0
    postings: int = 0
    mean_length: float = 0.0
    versions: dict[str, str] = {}


_Read = TypeVar("_Read", bound=_Model)


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a corpus, finished or not; None where `folder` holds none.

    Raises:
        InputError: It is not of this format.
    """
    path = folder / MANIFEST
    return _read(path, Manifest) if path.is_file() else None


def read_part(folder: Path) -> PartManifest:
    """The manifest of a part.

    Raises:
        InputError: It is missing or damaged.
    """
    return _read(folder / PART, PartManifest)


def write(path: Path, manifest: Manifest | PartManifest) -> None:
    """Replace a manifest as a whole.

    Raises:
        InputError: It cannot be written.
    """
    write_atomically(path, [manifest.model_dump_json(indent=1).encode() + b"\n"])


def _read(path: Path, kind: type[_Read]) -> _Read:
    with opened(path) as file:
        content = file.read()
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        fault = first_fault(error)
        raise InputError(path, fault, "It is damaged or of another version: build the corpus anew") from error
