"""ArchEHR-QA 2025: an answer with one sentence a line, its citations between pipes at the end.

Reading follows the official scorer's loader, including its silent repairs: text after the last pipe is
dropped, ids keep the blanks around them, and earlier citations of a line stay in its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cases.submissions.archehr import (
    ArchehrTask,
    CitedSentence,
    Found,
    KnownIds,
    Prediction,
    text_faults,
)
from cases.submissions.task import Fault, named
from cases.submissions.texts import cut, find_marks, length_fault
from cases.texts import one_line

_RANGE = re.compile(r"\d+\s*[-\u2013]\s*\d+")
_SEVERAL = re.compile(r"[\s;()\[\]]")
_WORD = re.compile(r"\w")
_FORM = "Write one sentence a line, its ids at the end: text |1,2|"


@dataclass(frozen=True, slots=True)
class CitedLine:
    """A line as the scorer takes it apart.

    Attributes:
        number: Of the line in its answer, from 1.
        sentence: Text before the last two pipes, stripped.
        citations: Text between them, split at commas and not stripped; None without two pipes.
        dropped: Text after the last pipe, which is not scored.
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
        """The scored text: the first 75 words."""
        return cut(self.full_text, "2025")

    @property
    def citations(self) -> tuple[str, ...]:
        """All that is cited, each id once, those of lines beyond the 75 words too."""
        return tuple(dict.fromkeys(id_ for sentence in self.sentences for id_ in sentence.citations))


class CitedAnswerTask(ArchehrTask):
    """The task of 2025."""

    field = "answer"
    part = "cited_answer"

    def value_of(self, prediction: Prediction) -> str:
        return write_cited_text(prediction.cited_answer or ())

    def prediction_of(self, entry: Mapping[str, Any]) -> Prediction:
        read = read_cited_text(entry[self.field])
        return Prediction(
            entry["case_id"], evidence=read.citations, answer=read.text, cited_answer=read.sentences
        )

    def value_faults(self, value: object) -> Found:
        yield from text_faults(value, self.field)
        if isinstance(value, str) and not read_cited_text(value).citations:
            yield self.field, "no citation in it", "End each line with the ids that it is built on: |1,2|"

    def rule_faults(self, entry: Mapping[str, Any], known: KnownIds | None) -> Iterator[Fault]:
        case, answer = entry["case_id"], entry[self.field]
        known = known or KnownIds()
        read = read_cited_text(answer)
        if not read.text:
            fault = "no text, only citations; the scorer accepts it and then divides by zero"
            yield Fault("refused", case, "answer", fault, "Give at least one sentence")
        unknown: dict[str, None] = {}
        for line in read_lines(answer):
            for fault, remedy in _line_faults(line, known):
                yield Fault("penalised", case, f"line {line.number}", fault, remedy)
            unknown.update(dict.fromkeys(_unknown(line, known)))
        if unknown:
            fault = f"cites {named([*unknown])}, which the note does not have: false positives"
            yield Fault("penalised", case, "answer", fault, "Cite ids of the note's sentences")
        fault_of_length = length_fault(read.full_text, "2025")
        if fault_of_length:
            fault, remedy = fault_of_length
            yield Fault("penalised", case, "answer", f"{fault}; citations of cut lines still count", remedy)


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


def _line_faults(line: CitedLine, known: KnownIds) -> Iterator[tuple[str, str]]:
    if line.citations is None:
        if "|" in line.sentence:
            yield "one pipe alone cites nothing and stays in the text", _FORM
    else:
        if _WORD.search(line.dropped):
            yield f"what follows the last pipe is dropped: {line.dropped[:60]!r}", _FORM
        blank = [id_ for id_ in line.citations if id_ != id_.strip()]
        if blank:
            fault = f"blanks count as part of an id: {named(blank)} match no sentence"
            yield fault, "Write |1,2| without blanks"
        joined = [id_ for id_ in line.citations if id_ not in blank and _is_several(id_)]
        if joined:
            fault = f"read as one id, not several: {named(joined)}"
            yield fault, "Name every id, with commas between them"
    marks = find_marks(line.sentence, known.sentences)
    piped = [mark for mark in marks if mark.startswith("|")]
    if piped:
        yield f"only the last citation of a line counts; {named(piped)} stays in the text", _FORM
    others = [mark for mark in marks if not mark.startswith("|")]
    if others:
        yield f"{named(others)} is not a citation here and stays in the text", _FORM


def _is_several(id_: str) -> bool:
    return bool(_RANGE.fullmatch(id_) or _SEVERAL.search(id_))


def _unknown(line: CitedLine, known: KnownIds) -> Iterator[str]:
    """Unknown ids, but for those whose form is a fault already."""
    if known.sentences is None:
        return
    for id_ in line.citations or ():
        if id_ not in known.sentences and id_ == id_.strip() and not _is_several(id_):
            yield id_
