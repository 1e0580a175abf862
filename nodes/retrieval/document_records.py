"""Small records of answers from literature that travel in the state: builtins only.

Unlike a note, a document is public and is found anew for every question, so its text travels too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NotRequired, TypedDict

from cases.records import Sentence


class RankedDocument(TypedDict):
    """A document's place in a ranking; `score` is None where the ranking gives places alone."""

    id: str
    rank: int
    score: float | None


class ChosenSnippet(TypedDict):
    """A piece of a document that answers are built on.

    `begin` and `end` count characters of the section; None where they are unknown.
    """

    document: str
    section: str
    begin: int | None
    end: int | None
    text: str


def numbered_snippets(snippets: Sequence[ChosenSnippet]) -> tuple[Sentence, ...]:
    """Snippets as the sentences of a record, with their numbers as ids."""
    return tuple(Sentence(id=str(number), text=one["text"]) for number, one in enumerate(snippets, 1))


class ExactVote(TypedDict):
    """One sample of an exact answer.

    `answer` is yes or no, or entries that are each a list of synonyms; None where the reply gives none.
    """

    sample: int
    answer: str | list[list[str]] | None


Reading = Literal["supports", "neutral", "refutes"]


class FoundDocument(TypedDict):
    """A document as the search found it."""

    id: str
    rank: int
    score: float
    title: str
    text: str
    year: int | None
    citations: int | None
    study_types: list[str]
    source: str


class Passage(TypedDict):
    """A text read by itself: an abstract, some of its sentences, or one.

    `id` counts from 1 in the order of reading, `sentences` from 0 in the document; None means the whole text.
    `similarity` is the cosine with the question, the highest for a passage of several sentences.
    """

    id: str
    document: str
    sentences: list[int] | None
    text: str
    similarity: float | None


class PassageReading(TypedDict):
    """Reading of a passage; a passage without one could not be read.

    `probability` is for `reading`; None if the reader does not report it.
    """

    passage: str
    reading: Reading
    probability: float | None
    probabilities: NotRequired[dict[Reading, float]]


class EvidencePassage(TypedDict):
    """A passage with its source and reading; `reading` is None if it failed."""

    id: str
    document: str
    title: str
    year: int | None
    citations: int | None
    strength: str | None
    source: str
    rank: int
    sentences: list[int] | None
    text: str
    similarity: float | None
    reading: Reading | None
    probability: float | None


class ReadingCounts(TypedDict):
    """How many passages say what; `missing` could not be read."""

    supports: int
    neutral: int
    refutes: int
    missing: int


class Disagreement(TypedDict):
    """Disagreement of readings.

    Attributes:
        entropy: Of the shares of the three readings, over its largest value: 0 where all say the same, 1
            where each is as frequent as the others.
        margin: Share of the most frequent reading minus the second's.
        by_year: Counts of readings by year of publication, `unknown` where there is none.
        by_strength: The same by kind of study.
    """

    entropy: float | None
    margin: float | None
    by_year: dict[str, dict[Reading, int]]
    by_strength: dict[str, dict[Reading, int]]
