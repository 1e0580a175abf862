"""Invented documents, a corpus in memory, and readers that say what a test wants."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from cases.documents import Document
from cases.records import Case
from nodes.core.context import VECTORS, Context
from nodes.reading.read_passages import ENTAILMENT
from nodes.reading.verdict_votes import READINGS
from nodes.retrieval.document_records import EvidencePassage, FoundDocument, Passage, Reading
from nodes.retrieval.document_texts import CORPUS
from ranking.encoding.vectors import Embedded
from ranking.rankers.entailment import Judged
from retrieval.protocols import Hit
from serving.backends.scripted import ScriptedCall
from tests.nodes.builders import Answering, Bench, never, script

QUESTION = "Does mint tea relieve cough?"
LETTERS: Mapping[str, Reading] = {"S": "supports", "N": "neutral", "R": "refutes"}


def question(case_id: str = "q", *, asked: str = QUESTION, as_of: int | None = None) -> Case:
    return Case(case_id, "", asked, (), as_of=as_of)


def document(
    id_: str,
    text: str = "Mint tea was given. The cough went.",
    year: int | None = 2010,
    citations: int | None = 5,
    *types: str,
) -> Document:
    return Document(id_, f"Trial {id_}", text, year, citations, types, "Journal of Inventions")


@dataclass(frozen=True)
class InMemory:
    """Documents by the number of words that they share with the query; ties by their order."""

    documents: Sequence[Document]
    identity: str = "in-memory@1"

    def __len__(self) -> int:
        return len(self.documents)

    def search(self, query: str, k: int) -> list[Hit]:
        words = set(query.lower().strip("?").split())
        scored = [(len(words & set(one.text.lower().split())), one) for one in self.documents]
        best = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])[:k]
        return [Hit(rank, float(score), one) for rank, (score, one) in enumerate(best, 1)]


@dataclass(frozen=True)
class ChosenVectors:
    """Puts each text at a chosen cosine from the question; 0 where none is chosen."""

    similarities: Mapping[str, float]
    identity: str = "chosen:2"

    def embed(self, texts: Sequence[str]) -> Embedded:
        cosines = [1.0, *(self.similarities.get(text, 0.0) for text in texts[1:])]
        rows = [[cosine, (1 - cosine**2) ** 0.5] for cosine in cosines]
        return Embedded(np.array(rows, dtype=np.float32), np.zeros(len(texts), dtype=np.bool_))


@dataclass(frozen=True)
class ChosenVerdicts:
    """A classifier that gives each text its row; undecided where none is chosen."""

    rows: Mapping[str, Sequence[float]] = field(default_factory=dict)
    cut: frozenset[str] = frozenset()
    identity: str = "chosen@1/clean"

    def judge(self, question: str, texts: Sequence[str]) -> Judged:
        rows = [self.rows.get(text, (0.2, 0.6, 0.2)) for text in texts]
        return Judged(np.array(rows), np.array([text in self.cut for text in texts]))


def found(*documents: Document) -> list[FoundDocument]:
    return [
        FoundDocument(
            id=one.id,
            rank=rank,
            score=1.0,
            title=one.title,
            text=one.text,
            year=one.year,
            citations=one.citations,
            study_types=list(one.study_types),
            source=one.source,
        )
        for rank, one in enumerate(documents, 1)
    ]


def passages(*texts: str) -> list[Passage]:
    return [
        Passage(id=str(number), document=f"d{number}", sentences=None, text=text, similarity=None)
        for number, text in enumerate(texts, 1)
    ]


def read_as(letters: str, **fields: Any) -> list[EvidencePassage]:
    """Passages by what they say: `S`, `N`, `R`, and `-` for one that could not be read."""
    return [
        cast(EvidencePassage, _passage(number, letter) | fields) for number, letter in enumerate(letters, 1)
    ]


def _passage(number: int, letter: str) -> dict[str, Any]:
    unknown = dict.fromkeys(("year", "citations", "strength", "similarity", "sentences", "probability"))
    known = {"id": str(number), "document": f"d{number}", "title": "", "source": "", "rank": number}
    return {**unknown, **known, "text": "", "reading": LETTERS.get(letter)}


def says(reading: str) -> str:
    return json.dumps({"reading": reading})


def reading_by_word(call: ScriptedCall) -> str:
    """The word of the passage that is a reading; neutral where there is none."""
    passage = call.prompt[-1][1].rpartition("Passage:")[2]
    return says(next((name for name in READINGS if name in passage), "neutral"))


def literature_context(
    bench: Bench,
    *documents: Document,
    case: Case | None = None,
    label: Answering = reading_by_word,
    answer: Answering = never,
    vectors: ChosenVectors | None = None,
    entailment: ChosenVerdicts | None = None,
    **values: Any,
) -> Context:
    """A context with a corpus of `documents`; the rest are a recipe's values."""
    return bench.context(
        case or question(),
        system="timeaware",
        replies=script(label=label, answer=answer),
        tools={CORPUS: InMemory(documents), VECTORS: vectors, ENTAILMENT: entailment},
        **values,
    )
