"""A ranker that reads one source once, from files of earlier readings where there are some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from ranking.logistic import LogisticRanker
from ranking.ranker import Ranker
from ranking.source_vectors import SourceVectors
from ranking.vectors import shared_vectors


@runtime_checkable
class KeepsSources(Protocol):
    """A ranker that encodes a source by itself, and can keep that in files."""

    def keep_sources(self, folder: Path) -> None:
        """Keep encoded sources in a folder from now on, and look there first."""


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
    if folder is not None and isinstance(ranker, KeepsSources):
        ranker.keep_sources(folder)
    if not isinstance(ranker, LogisticRanker):
        return ranker, None
    vectors = SourceVectors(shared_vectors(), sentences, folder, report)
    return LogisticRanker(ranker.weights, vectors), vectors
