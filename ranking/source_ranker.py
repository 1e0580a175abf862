"""A ranker that reads one source once, from files of earlier readings where there are some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ranking.logistic import LogisticRanker
from ranking.ranker import Ranker
from ranking.source_vectors import SourceVectors
from ranking.vectors import shared_vectors


def with_source(
    ranker: Ranker,
    sentences: Sequence[str],
    folder: Path | None,
    report: Callable[[int], None] = lambda encoded: None,
) -> tuple[Ranker, SourceVectors | None]:
    """Give a ranker the vectors of its source.

    Args:
        ranker: Any.
        sentences: Of the source.
        folder: Where vectors are kept; None for memory alone.
        report: Is told how many sentences of the source are encoded.

    Returns:
        A ranker that scores the same, and the vectors; None where the ranker keeps none.
    """
    if not isinstance(ranker, LogisticRanker):
        return ranker, None
    vectors = SourceVectors(shared_vectors(), sentences, folder, report)
    return LogisticRanker(ranker.weights, vectors), vectors
