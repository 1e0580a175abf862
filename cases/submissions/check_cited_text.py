"""What the scorer of 2025 makes of a cited answer without a word: each rule that costs points."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cases.submissions.check_texts import length_fault
from cases.submissions.citation_marks import find_marks
from cases.submissions.cited_lines import CitedLine, read_cited_text, read_lines
from cases.submissions.fault import Fault, named
from cases.submissions.known_ids import KnownIds

_RANGE = re.compile(r"\d+\s*[-\u2013]\s*\d+")
_SEVERAL = re.compile(r"[\s;()\[\]]")
_WORD = re.compile(r"\w")
_FORM = "Write one sentence a line, its ids at the end: text |1,2|"


def cited_text_faults(case: str, answer: str, known: KnownIds) -> Iterator[Fault]:
    """Find what lowers the score of an answer that the loader accepts."""
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
        yield f"{named(others)} is no citation here and stays in the text", _FORM


def _is_several(id_: str) -> bool:
    return bool(_RANGE.fullmatch(id_) or _SEVERAL.search(id_))


def _unknown(line: CitedLine, known: KnownIds) -> Iterator[str]:
    """Unknown ids, those that are told of for their form left out."""
    if known.sentences is None:
        return
    for id_ in line.citations or ():
        if id_ not in known.sentences and id_ == id_.strip() and not _is_several(id_):
            yield id_
