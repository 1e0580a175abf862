"""Published documents that questions are answered from, and how often each is cited."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import orjson

from cases.texts import hash64
from storage.errors import InputError
from storage.files import DamagedFile, Meter, lines, opened


@dataclass(frozen=True, slots=True)
class Document:
    """An abstract.

    Attributes:
        id: Unique within its corpus, such as a PubMed id.
        title: One line.
        text: The abstract as one text, without its title.
        year: Of publication; None where unknown.
        citations: How often others cite it; None where unknown.
        study_types: As the source names them, such as "Randomized Controlled Trial"; empty where unknown.
        source: Journal or data set, for readers.
    """

    id: str
    title: str
    text: str
    year: int | None = None
    citations: int | None = None
    study_types: tuple[str, ...] = ()
    source: str = ""


SkipReason = Literal["unreadable", "empty", "damaged file"]
"""Why a record is skipped: it cannot be read, has neither title nor text, or its file ends there."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that gave no document.

    Attributes:
        place: File and line or record, for readers.
        fault: Its fault, in one line.
        reason: The kind of fault, for counting.
    """

    place: str
    fault: str
    reason: SkipReason


_REMEDY = 'Give {"ID": COUNT, ...} as .json, or lines of id and count separated by a comma or a tab'


class CitationTable:
    """Counts by the ids of documents, at 12 bytes each."""

    def __init__(self, hashes: array[int], counts: array[int]) -> None:
        """For a repeated id, the first count is used."""
        self._hashes, first = np.unique(np.frombuffer(hashes, dtype=np.uint64), return_index=True)
        self._counts = np.frombuffer(counts, dtype=np.int32)[first]

    def __len__(self) -> int:
        return int(self._hashes.size)

    def count(self, document_id: str) -> int | None:
        """How often a document is cited; None where the table does not have it."""
        hashed = np.uint64(hash64(document_id))
        place = int(np.searchsorted(self._hashes, hashed))
        known = place < self._hashes.size and self._hashes[place] == hashed
        return int(self._counts[place]) if known else None


def read_citations(path: Path) -> CitationTable:
    """Read a table: `.json` is one object of counts by id, everything else has two columns.

    A first line without a count is a heading. Files may be packed (`.gz`). A JSON file is held in memory as a
    whole; lines are not.

    Raises:
        InputError: The file cannot be read, or an entry is not an id with a count from 0 up.
    """
    hashes, counts = array("Q"), array("i")
    name = path.name.lower().removesuffix(".gz")
    try:
        pairs = _object(path) if name.endswith(".json") else _columns(path)
        for document_id, count in pairs:
            hashes.append(hash64(document_id))
            counts.append(count)
    except DamagedFile as error:
        raise InputError(path, str(error), "Fetch the table again") from error
    except OverflowError as error:
        raise InputError(path, "a count above 2,147,483,647", _REMEDY) from error
    if not hashes:
        raise InputError(path, "no citation count in it", _REMEDY)
    return CitationTable(hashes, counts)


def _object(path: Path) -> Iterator[tuple[str, int]]:
    try:
        table = orjson.loads(b"\n".join(lines(path, Meter())))
    except orjson.JSONDecodeError as error:
        raise InputError(path, f"line {error.lineno}, column {error.colno}: {error.msg}", _REMEDY) from error
    if not isinstance(table, dict):
        raise InputError(path, "not a JSON object", _REMEDY)
    for document_id, count in table.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise InputError(path, f"{document_id!r}: {count!r} is not a count", _REMEDY)
        yield document_id, count


def _columns(path: Path) -> Iterator[tuple[str, int]]:
    with opened(path):
        pass
    for number, line in enumerate(lines(path, Meter()), start=1):
        text = line.decode("utf-8", "replace").strip()
        if not text:
            continue
        document_id, _, count = (part.strip(' "') for part in text.partition("\t" if "\t" in text else ","))
        if count.isdecimal() and document_id:
            yield document_id, int(count)
        elif number > 1:
            raise InputError(path, f"line {number}: {text[:60]!r} is not an id with a count", _REMEDY)
