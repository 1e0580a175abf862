"""One example, ranked: what `evigraph rank` keeps of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter

from ranking.cutoffs import Cutoff, select
from ranking.errors import RankerError
from ranking.examples import Example
from ranking.prefixes import checked_scores
from ranking.ranker import Ranked

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class RankedRow:
    """A line of the output; its fields are the keys of the JSON.

    Attributes:
        selected: Ids of sentences, in document order.
        scores: By sentence id, in document order.
        cut_sentences: Ids of sentences of which only the beginning was read.
        query_cut: Whether only the beginning of the query was.
        gold: Ids of the sentences that are evidence; None where unlabelled.
        weak: Whether a model made the labels: they are never scored against.
    """

    id: str
    selected: tuple[str, ...]
    scores: Mapping[str, float]
    cut_sentences: tuple[str, ...]
    query_cut: bool
    gold: tuple[str, ...] | None
    weak: bool

    def as_json(self) -> dict[str, Any]:
        """The line."""
        return asdict(self)

    @property
    def labels(self) -> list[bool] | None:
        """Whether each sentence is evidence, in the order of `scores`."""
        if self.gold is None:
            return None
        gold = set(self.gold)
        return [id_ in gold for id_ in self.scores]


_ROWS: TypeAdapter[RankedRow] = TypeAdapter(RankedRow)


def read_row(fields: dict[str, Any]) -> RankedRow:
    """The row of a line that `as_json` made."""
    return _ROWS.validate_python(fields)


def row_of(example: Example, ranked: Ranked, cutoff: Cutoff, identity: str) -> RankedRow:
    """Cut a ranking.

    Raises:
        RankerError: A score is no number.
    """
    ids = sentence_ids(example)
    try:
        scores = checked_scores(ranked.scores)
    except ValueError as error:
        raise RankerError(f"ranker {identity}, example {example.id!r}: {error}") from None
    return RankedRow(
        id=example.id,
        selected=tuple(ids[place] for place in select(cutoff, scores)),
        scores={id_: round(float(score), _DIGITS) for id_, score in zip(ids, scores, strict=True)},
        cut_sentences=tuple(ids[place] for place in ranked.cut_sentences),
        query_cut=ranked.query_cut,
        gold=None
        if example.labels is None
        else tuple(id_ for id_, label in zip(ids, example.labels, strict=True) if label),
        weak=example.label_source == "weak",
    )


def sentence_ids(example: Example) -> tuple[str, ...]:
    """The source's, or positions from 0."""
    return example.sentence_ids or tuple(str(place) for place in range(len(example.sentences)))


def example_sha256(example: Example) -> str:
    """Digest of all that a ranker or a score reads of an example."""
    fields = [
        example.id,
        example.query,
        example.sentences,
        example.labels,
        example.label_source,
        example.sentence_ids,
    ]
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()
