"""Measures of one question's exact answer. Texts are equal or not; only their case is ignored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from cases.bioasq_submissions.prediction import MOST_FACTOID_ENTRIES, MOST_LIST_ENTRIES
from evals.bioasq.overlap import Scores, scores

Answer = str | tuple[tuple[str, ...], ...]
Entries = Sequence[Sequence[str]]


class FactoidScores(NamedTuple):
    """Whether the first entry is right, whether any is, and 1 over the rank of the first that is."""

    strict: float
    lenient: float
    reciprocal_rank: float


def read_yes_or_no(answer: Answer) -> Literal["yes", "no"] | None:
    """The answer that a text holds, `yes` looked for first; None where it holds neither."""
    text = (answer if isinstance(answer, str) else " ".join(first_names(answer))).lower()
    if "yes" in text:
        return "yes"
    return "no" if "no" in text else None


def first_names(answer: Answer) -> list[str]:
    """What is read of an answer's entries: the first name of each, in lower case."""
    entries: Entries = [[answer]] if isinstance(answer, str) else answer
    return [names[0].lower() for names in entries if names]


def factoid_scores(answer: Answer, gold: Entries) -> FactoidScores:
    """Of the first five entries; each may equal any synonym."""
    right = {name.lower() for names in gold for name in names}
    given = first_names(answer)[:MOST_FACTOID_ENTRIES]
    rank = next((rank for rank, name in enumerate(given, start=1) if name in right), None)
    if rank is None:
        return FactoidScores(0.0, 0.0, 0.0)
    return FactoidScores(float(rank == 1), 1.0, 1 / rank)


def list_scores(answer: Answer, gold: Entries) -> Scores:
    """Each entry takes the first item that it names and that is still there; a second name of it is wrong."""
    left = [{name.lower() for name in names} for names in gold]
    given = first_names(answer)[:MOST_LIST_ENTRIES]
    wanted, right = len(left), 0
    for name in given:
        place = next((place for place, names in enumerate(left) if name in names), None)
        if place is not None:
            right += 1
            del left[place]
    return scores(right, len(given), wanted)
