"""Documents as rankers and prompts see them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cases.documents import Document
from nodes.core.context import Tool
from nodes.core.facts import Fact, Facts, Row
from nodes.core.wording import one_line
from nodes.retrieval.document_records import FoundDocument, RankedDocument
from ranking.rankers.ranker import Ranker
from retrieval.protocols import DenseIndex
from retrieval.protocols import SearchableCorpus as Corpus

CORPUS: Tool[Corpus] = Tool("corpus")
"""Published documents, searched by words."""

INDEX: Tool[DenseIndex] = Tool("index")
"""Documents by their vectors."""

DOCUMENT_RERANKER: Tool[Ranker] = Tool("document_reranker")
"""Scores whole documents."""


SHOWN_IN_TRACE = 30
"""Best documents of a decision; of the thousand behind them it has the count."""

SCORE_DIGITS = 6
"""Reciprocal ranks of neighbours differ in the fourth digit."""


def passage(title: str, text: str) -> str:
    """Text of a document for a cross-encoder: title, full stop, abstract, as far as present."""
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


def found_document(document: Document, rank: int, score: float, digits: int = SCORE_DIGITS) -> FoundDocument:
    """A document as a search found it."""
    return FoundDocument(
        id=document.id,
        rank=rank,
        score=round(score, digits),
        title=document.title,
        text=document.text,
        year=document.year,
        citations=document.citations,
        study_types=list(document.study_types),
        source=document.source,
    )


def of_documents(documents: Iterable[FoundDocument]) -> list[RankedDocument]:
    """The ranking that a search gave."""
    return [RankedDocument(id=one["id"], rank=one["rank"], score=one["score"]) for one in documents]


def _document_rows(documents: Sequence[Facts], _: Facts) -> list[Row]:
    return [(f"document {one['id']}", _place(one)) for one in documents]


def _place(document: Facts) -> str:
    place = f"rank {document['rank']}, score {document['score']:.3f}"
    if "year" not in document:
        return place
    year, citations = ("-" if document[name] is None else document[name] for name in ("year", "citations"))
    return f"{place}, year {year}, cited {citations}"


def _ranking_rows(ranking: Sequence[Facts], _: Facts) -> list[Row]:
    shown = [one["id"] if one["score"] is None else f"{one['id']} {one['score']:.3f}" for one in ranking]
    return [("ranking", ", ".join(shown))] if shown else []


FOUND_DOCUMENTS = Fact(rows=_document_rows)
"""Documents with their places, a line each."""

DOCUMENT_RANKING = Fact(rows=_ranking_rows)
"""Documents in an order, on one line."""

NOTHING_FOUND = {"nothing_found": "no document of the corpus shares a word with the question"}
"""The flag of a node that searches."""
