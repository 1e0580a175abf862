"""The answer of 2025: one sentence a line, its citations between pipes at the end. Pure functions.

Reading does what the official scorer's loader does, its silences included: whatever follows the last pipe is
dropped, ids keep the blanks around them, and earlier citations of a line stay in its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cases.submissions.prediction import CitedSentence
from cases.submissions.word_limits import cut
from cases.texts import one_line


@dataclass(frozen=True, slots=True)
class CitedLine:
    """A line as the scorer takes it apart.

    Attributes:
        number: Of the line in its answer, from 1.
        sentence: Text before the last two pipes, stripped.
        citations: What stands between them, split at commas and not stripped; None without two pipes.
        dropped: What follows the last pipe, and is not scored.
    """

    number: int
    sentence: str
    citations: tuple[str, ...] | None
    dropped: str = ""


@dataclass(frozen=True, slots=True)
class CitedText:
    """An answer as the scorer reads it.

    Attributes:
        sentences: One for each line that is not blank, with a full stop where it had no end.
    """

    sentences: tuple[CitedSentence, ...]

    @property
    def full_text(self) -> str:
        """The sentences with single spaces between them."""
        return " ".join(sentence.text for sentence in self.sentences if sentence.text)

    @property
    def text(self) -> str:
        """What is scored: the first 75 words."""
        return cut(self.full_text, "2025")

    @property
    def citations(self) -> tuple[str, ...]:
        """All that is cited, each id once, those of lines beyond the 75 words too."""
        return tuple(dict.fromkeys(id_ for sentence in self.sentences for id_ in sentence.citations))


def read_lines(answer: str) -> Iterator[CitedLine]:
    """Take an answer apart; only a newline ends a line, and blank lines are passed over."""
    for number, line in enumerate(answer.strip().split("\n"), start=1):
        if not line.strip():
            continue
        match line.rsplit("|", maxsplit=2):
            case [sentence, cited, dropped]:
                citations = tuple(id_ for id_ in cited.split(",") if id_.strip())
                yield CitedLine(number, sentence.strip(), citations, dropped.strip())
            case _:
                yield CitedLine(number, line.strip(), None)


def read_cited_text(answer: str) -> CitedText:
    """Read an answer as the official scorer does."""
    return CitedText(
        tuple(CitedSentence(_ended(line.sentence), line.citations or ()) for line in read_lines(answer))
    )


def write_cited_text(sentences: Iterable[CitedSentence]) -> str:
    """Write an answer. Line breaks of a sentence become spaces and its pipes slashes.

    Raises:
        ValueError: A cited id would be read as something else: it has a comma, a pipe or a line break,
            blanks around it, or nothing in it.
    """
    return "\n".join(filter(None, map(_line, sentences)))


def _line(sentence: CitedSentence) -> str:
    for id_ in sentence.citations:
        if id_ != id_.strip() or not id_ or any(mark in id_ for mark in ",|\n"):
            raise ValueError(f"the form of 2025 cannot hold a citation of {id_!r}")
    text = one_line(sentence.text).replace("|", "/")
    return f"{text} |{','.join(sentence.citations)}|".lstrip() if sentence.citations else text


def _ended(sentence: str) -> str:
    return f"{sentence}." if sentence and sentence[-1] not in ".!?" else sentence
