"""Published documents that questions are answered from: plain, frozen and free of file formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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
"""Why a record is no document: it cannot be read, has neither title nor text, or its file ends there."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that gave no document.

    Attributes:
        place: File and line or record, for readers.
        fault: What is wrong with it, in one line.
        reason: The kind of fault, which is what gets counted.
    """

    place: str
    fault: str
    reason: SkipReason
