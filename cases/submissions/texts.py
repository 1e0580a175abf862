"""Subtasks 1 and 3 of ArchEHR-QA 2026, a question and an answer, and what all texts are checked for.

Scorers cut texts at a limit of words without an error, and leave citations in them that they do not read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from cases.submissions.archehr import ArchehrTask, Found, KnownIds, Prediction, text_faults
from cases.submissions.task import Fault, named

TextTask = Literal["2025", "2026-1", "2026-3"]

WORD_LIMITS: Mapping[TextTask, int] = {"2025": 75, "2026-1": 15, "2026-3": 75}
"""Most words that are scored; the others are cut off without an error."""

_IDS = r"\s*\d{1,4}(?:\s*[-\u2013,;]\s*\d{1,4})*\s*"
_MARK = re.compile(rf"\|{_IDS}(?=\|)|\[{_IDS}\]|\({_IDS}\)")
_NUMBER = re.compile(r"\d+")


class PlainTextTask(ArchehrTask):
    """A question (subtask 1) or an answer (subtask 3) of 2026: one text."""

    def __init__(self, name: Literal["2026-1", "2026-3"]) -> None:
        super().__init__(name)
        self._limited: TextTask = name
        self.part = "question" if name == "2026-1" else "answer"
        self.needs = () if name == "2026-1" else ("sentences",)

    def value_of(self, prediction: Prediction) -> Any:
        return getattr(prediction, self.part)

    def prediction_of(self, entry: Mapping[str, Any]) -> Prediction:
        text = cut(entry[self.field].strip(), self._limited)
        if self._limited == "2026-1":
            return Prediction(entry["case_id"], question=text)
        return Prediction(entry["case_id"], answer=text)

    def value_faults(self, value: object) -> Found:
        yield from text_faults(value, self.field)
        if isinstance(value, str) and not value.strip():
            yield self.field, "it is empty", "A text task has no way to submit nothing"

    def rule_faults(self, entry: Mapping[str, Any], known: KnownIds | None) -> Iterator[Fault]:
        case, text = entry["case_id"], entry[self.field].strip()
        marks = find_marks(text, known.sentences if known else None)
        if marks:
            fault = f"citations are not taken out: {named(marks)} is scored as text and counts as words"
            yield Fault("penalised", case, self.field, fault, "Submit the text without citations")
        too_long = length_fault(text, self._limited)
        if too_long:
            yield Fault("penalised", case, self.field, *too_long)
        elif "\n" in text:
            fault = "line breaks in it change rougeLsum, which takes each line for a sentence"
            yield Fault("penalised", case, self.field, fault, "Write it in one line")


def words(text: str, task: TextTask) -> list[str]:
    """Words by the scorer's count: split at single spaces in 2025, at any white space in 2026."""
    return [word for word in text.split(" ") if word.strip()] if task == "2025" else text.split()


def cut(text: str, task: TextTask) -> str:
    """Keep the words within the limit. Only a text that is too long has its white space changed."""
    counted = words(text, task)
    limit = WORD_LIMITS[task]
    return " ".join(counted[:limit]) if len(counted) > limit else text


def length_fault(text: str, task: TextTask) -> tuple[str, str] | None:
    """Fault of a text over its limit, with the part that is cut off; None if within."""
    count, limit = len(words(text, task)), WORD_LIMITS[task]
    if count <= limit:
        return None
    return f"{count} words, cut to the first {limit}", f"Keep to {limit} words"


def find_marks(text: str, known: Collection[str] | None) -> list[str]:
    """Find citations in forms that no scorer reads, `|1|`, `[1,2]`, `(3)`, in their order.

    Args:
        text: An answer, or a sentence of one.
        known: Ids of the note's sentences. A number in parentheses that is none of them is taken for a year
            or a dose; without them every short one is taken for a citation.
    """
    found = []
    for match in _MARK.finditer(text):
        mark = match[0]
        numbers = _NUMBER.findall(mark)
        if mark.startswith("(") and known is not None and not set(numbers) <= set(known):
            continue
        found.append(f"{mark}|" if mark.startswith("|") else mark)
    return found
