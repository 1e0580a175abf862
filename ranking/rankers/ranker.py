"""The protocol of all rankers: BM25, a logistic regression, a trained neural model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ranking.cutoffs import Cutoff
from ranking.encoding.source_cache import SourceCache

CHECKPOINT = "ranker.json"
"""The file in the folder of a trained ranker that says of which kind it is, written last."""

Scores = NDArray[np.float32]
"""One logit for each sentence, shape (sentences,); higher is more likely to be evidence."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """The scores of one document for one query.

    Attributes:
        scores: Shape (sentences,), finite.
        cut_sentences: Positions of sentences over the model's length limit, of which only the beginning was
            read.
        query_cut: Whether the query was over the limit.
        unrelated: Positions of sentences that share nothing with the query, so their scores are equal and
            uninformative. Empty if a ranker cannot tell.
    """

    scores: Scores
    cut_sentences: tuple[int, ...] = ()
    query_cut: bool = False
    unrelated: tuple[int, ...] = ()


class Ranker(Protocol):
    """Scores the sentences of a document for a query. Safe to use from several threads."""

    @property
    def identity(self) -> str:
        """Name and hash of the weights, for run manifests: equal identities score alike."""

    @property
    def cutoff(self) -> Cutoff:
        """The rule that turns its scores into a selection, as tuned when it was trained."""

    def rank(self, query: str, sentences: Sequence[str]) -> Ranked:
        """Score every sentence; of none, the scores are empty. An empty sentence gets a score like others."""


@runtime_checkable
class SourceRanker(Protocol):
    """A ranker that reads a source once for many queries."""

    def rank_many(self, queries: Sequence[str], sentences: Sequence[str]) -> Sequence[Ranked]:
        """One result per query, each equal to `rank`'s."""


@runtime_checkable
class KeepsSources(Protocol):
    """A ranker that encodes a source once for all its queries; None where it encodes nothing before one."""

    sources: SourceCache[Any] | None


def rank_queries(ranker: Ranker, queries: Sequence[str], sentences: Sequence[str]) -> Iterable[Ranked]:
    """One result a query; the sentences are read once, if the ranker can do that."""
    if isinstance(ranker, SourceRanker):
        return ranker.rank_many(queries, sentences)
    return (ranker.rank(query, sentences) for query in queries)
