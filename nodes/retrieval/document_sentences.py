"""Sentences of documents with their place in title or abstract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from nodes.reading.literature_records import FoundDocument


class PlacedSentence(NamedTuple):
    """A sentence; `section[begin:end]` is its text."""

    document: str
    section: str
    begin: int
    end: int
    text: str


def placed_sentences(documents: Iterable[FoundDocument]) -> list[PlacedSentence]:
    """Titles and sentences of abstracts, in the order of the documents; blanks at their ends are left out."""
    return [
        sentence
        for document in documents
        for section, text in (("title", document["title"]), ("abstract", document["text"]))
        for sentence in _split(document["id"], section, text)
    ]


def _split(document: str, section: str, text: str) -> Iterator[PlacedSentence]:
    if section == "title":
        yield from _stripped(document, section, text, 0, len(text))
        return
    from sentencex import get_sentence_boundaries

    for boundary in get_sentence_boundaries("en", text):
        yield from _stripped(document, section, text, boundary["start_index"], boundary["end_index"])


def _stripped(document: str, section: str, text: str, begin: int, end: int) -> Iterator[PlacedSentence]:
    piece = text[begin:end]
    first = begin + len(piece) - len(piece.lstrip())
    last = end - len(piece) + len(piece.rstrip())
    if first < last:
        yield PlacedSentence(document, section, first, last, text[first:last])
