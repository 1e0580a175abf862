"""Documents as rankers and prompts see them."""

from __future__ import annotations

from collections.abc import Iterable

from nodes.answer.biomedical_records import RankedDocument
from nodes.core.wording import one_line
from nodes.reading.literature_records import FoundDocument

SHOWN_IN_TRACE = 30
"""Best documents of a decision; the thousand behind them are told by their count."""

SCORE_DIGITS = 6
"""Reciprocal ranks of neighbours differ in the fourth digit."""


def passage(title: str, text: str) -> str:
    """Title, full stop, abstract: what a cross-encoder reads of a document; only what there is of them."""
    parts = [part for part in (one_line(title).rstrip("."), one_line(text)) if part]
    return ". ".join(parts)


def shortened(text: str, words: int) -> str:
    """The first words of a text on one line, with a sign where there are more."""
    found = text.split()
    return " ".join(found[:words]) + (" ..." if len(found) > words else "")


def ranked(ids: Iterable[str], scores: Iterable[float | None]) -> list[RankedDocument]:
    """Documents in their order, best first, counted from 1."""
    return [
        RankedDocument(id=id_, rank=rank, score=None if score is None else round(score, SCORE_DIGITS))
        for rank, (id_, score) in enumerate(zip(ids, scores, strict=True), start=1)
    ]


def of_documents(documents: Iterable[FoundDocument]) -> list[RankedDocument]:
    """The ranking that a search gave."""
    return [RankedDocument(id=one["id"], rank=one["rank"], score=one["score"]) for one in documents]
