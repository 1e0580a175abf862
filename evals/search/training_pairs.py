"""Questions with relevant and with hard irrelevant documents: what `evigraph train reranker` learns from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from evals.search.questions import JudgedQuestion
from evals.search.retrievers import RetrieverName, Retrievers
from ranking.measures import recall
from storage.files import write_atomically

HARDEST = 100
"""Places from which one half is drawn; the other half is from those behind them."""

LAST = 1000

RECALL_DEPTHS = (10, 100, LAST)


@dataclass(frozen=True, slots=True)
class PairOptions:
    """How examples are made.

    Attributes:
        retriever: Whose irrelevant finds are hard.
        negatives: For each question; fewer where fewer were found.
        seed: Of their choice and of the order of passages.
    """

    retriever: RetrieverName
    negatives: int = 20
    seed: int = 42


@dataclass(slots=True)
class PairCounts:
    """Counts of the written pairs.

    Attributes:
        without_relevant: Questions whose relevant documents are all missing from the corpus; they are left
            out.
        missing: Relevant documents that the corpus does not hold.
        not_found: Relevant documents of examples that the search did not find; they are in all the same.
        recalls: Of each question, at each depth, of the relevant documents that the corpus holds.
    """

    questions: int = 0
    without_relevant: int = 0
    positives: int = 0
    negatives: int = 0
    missing: int = 0
    not_found: int = 0
    recalls: dict[int, list[float]] = field(default_factory=lambda: {depth: [] for depth in RECALL_DEPTHS})

    @property
    def recall(self) -> dict[int, float]:
        """Mean over questions by depth; 0 without questions."""
        return {depth: sum(values) / len(values) if values else 0.0 for depth, values in self.recalls.items()}


async def write_training_examples(
    path: Path,
    retrievers: Retrievers,
    questions: Sequence[JudgedQuestion],
    options: PairOptions,
    report: Callable[[int], None],
) -> PairCounts:
    """Write one line a question, in the plain format of labelled sentences; all of the file or nothing.

    Raises:
        InputError: It cannot be written.
    """
    counts = PairCounts()
    lines = []
    for done, question in enumerate(questions, start=1):
        relevant = retrievers.known(question.relevant)
        counts.missing += len(question.relevant) - len(relevant)
        if relevant:
            found = [one.id for one in (await retrievers.search(question.text, LAST))[options.retriever]]
            lines.append(_line(retrievers, question, relevant, found, options, counts))
        else:
            counts.without_relevant += 1
        report(done)
    write_atomically(path, (json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines))
    return counts


def _line(
    retrievers: Retrievers,
    question: JudgedQuestion,
    relevant: Sequence[str],
    found: Sequence[str],
    options: PairOptions,
    counts: PairCounts,
) -> dict[str, object]:
    hard = hard_negatives(
        found, question.relevant, options.negatives, seed=options.seed, question=question.id
    )
    ids = shuffled([*relevant, *hard], seed=options.seed, question=question.id)
    gold = frozenset(relevant)
    counts.questions += 1
    counts.positives += len(relevant)
    counts.negatives += len(hard)
    counts.not_found += len(gold.difference(found))
    for depth, values in counts.recalls.items():
        values.append(recall(found, relevant, depth))
    return {
        "id": question.id,
        "query": " ".join(question.text.split()),
        "sentences": retrievers.passages(ids),
        "labels": [id_ in gold for id_ in ids],
        "document_id": f"documents of {question.id}",
        "group": question.id,
    }


def hard_negatives(
    found: Sequence[str], relevant: Collection[str], wanted: int, *, seed: int, question: str
) -> list[str]:
    """Draw documents that were found and are not relevant, in the order in which they were found.

    Half are from the first 100 places and half from those up to 1,000 (Verma et al. 2025 do not give the
    number), counted before relevant ones are taken out. A half that has too few is filled from the other;
    fewer come back where there are fewer. Each question's draw is independent of the others.
    """
    gold = frozenset(relevant)
    near = [place for place, id_ in enumerate(found[:HARDEST]) if id_ not in gold]
    far = [place for place, id_ in enumerate(found[HARDEST:LAST], start=HARDEST) if id_ not in gold]
    of_far = min(len(far), wanted // 2)
    of_near = min(len(near), wanted - of_far)
    of_far = min(len(far), wanted - of_near)
    generator = np.random.default_rng(_seed_of(seed, question))
    drawn = [*_draw(near, of_near, generator), *_draw(far, of_far, generator)]
    return [found[place] for place in sorted(drawn)]


def _draw(places: Sequence[int], count: int, generator: np.random.Generator) -> list[int]:
    if not count:
        return []
    return [places[int(one)] for one in generator.choice(len(places), size=count, replace=False)]


def shuffled(ids: Sequence[str], *, seed: int, question: str) -> list[str]:
    """In random order, so that the position carries no information."""
    order = np.random.default_rng(_seed_of(seed, f"{question}/order")).permutation(len(ids))
    return [ids[int(place)] for place in order]


def _seed_of(seed: int, question: str) -> int:
    return int.from_bytes(hashlib.sha256(json.dumps([seed, question]).encode()).digest()[:16])
