"""What the scorers make of a text without a word: length, citations left in it, line breaks."""

from __future__ import annotations

from collections.abc import Iterator

from cases.submissions.citation_marks import find_marks
from cases.submissions.fault import Fault, named
from cases.submissions.known_ids import KnownIds
from cases.submissions.prediction import Task
from cases.submissions.word_limits import WORD_LIMITS, words


def text_faults(case: str, text: str, task: Task, known: KnownIds) -> Iterator[Fault]:
    """Find what lowers the score of a question or an answer of 2026."""
    stripped = text.strip()
    marks = find_marks(stripped, known.sentences)
    if marks:
        fault = f"citations are not taken out: {named(marks)} is scored as text and counts as words"
        yield Fault("penalised", case, "prediction", fault, "Hand in the text without citations")
    too_long = length_fault(stripped, task)
    if too_long:
        yield Fault("penalised", case, "prediction", *too_long)
    elif "\n" in stripped:
        fault = "line breaks in it change rougeLsum, which takes each line for a sentence"
        yield Fault("penalised", case, "prediction", fault, "Write it in one line")


def length_fault(text: str, task: Task) -> tuple[str, str] | None:
    """Say that a text is over its limit and what is cut off; None if it is not."""
    count, limit = len(words(text, task)), WORD_LIMITS[task]
    if count <= limit:
        return None
    return f"{count} words, cut to the first {limit}", f"Keep to {limit} words"
