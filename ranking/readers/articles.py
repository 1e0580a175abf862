"""Full-text articles of Evidence Inference into sentences that know where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cases.texts import one_line

_HEADING = re.compile(
    r"^[^\n]{0,40}?(?P<part>TITLE|ABSTRACT|BODY)(?:\.(?P<name>[^\n]*?))?:{1,2}[ \t]*$", re.MULTILINE
)
_LONGEST = 400
"""Characters. Nearly all that is longer is a table, whose rows would otherwise be one sentence."""


@dataclass(frozen=True, slots=True)
class ArticleSentence:
    """A sentence with its place.

    Attributes:
        start: First character in the article; `end` is behind the last.
        part: `title`, `abstract` or `body`.
        text: On one line.
    """

    start: int
    end: int
    part: str
    text: str


def split_article(text: str) -> tuple[ArticleSentence, ...]:
    """Split an article into the sentences of its sections; headings are none.

    What is longer than 400 characters, mostly a table, is split at line ends.
    """
    return tuple(
        sentence
        for part, start, end in _sections(text)
        for sentence in _sentences(text, part, start, end)
        if sentence.text
    )


def _sections(text: str) -> Iterator[tuple[str, int, int]]:
    part, start = "body", 0
    for heading in _HEADING.finditer(text):
        yield part, start, heading.start()
        part, start = heading["part"].lower(), heading.end()
    yield part, start, len(text)


def _sentences(text: str, part: str, start: int, end: int) -> Iterator[ArticleSentence]:
    from sentencex import get_sentence_boundaries

    for boundary in get_sentence_boundaries("en", text[start:end]):
        first, last = start + boundary["start_index"], start + boundary["end_index"]
        for begin, behind in _pieces(text, first, last):
            yield ArticleSentence(begin, behind, part, one_line(text[begin:behind]))


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Whole lines, as many as fit, without blanks at either side; a single long line stays whole."""
    begin = behind = start
    for line in text[start:end].splitlines(keepends=True):
        if behind > begin and behind + len(line) - begin > _LONGEST:
            yield _stripped(text, begin, behind)
            begin = behind
        behind += len(line)
    yield _stripped(text, begin, behind)


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())
