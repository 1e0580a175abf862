"""Sentence vectors of one source, computed once: a second look at it encodes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from ranking.encoding.source_cache import MEMORY_BYTES, Arrays, SourceCache
from ranking.encoding.vectors import Embedded, TextVectors, shared_vectors
from ranking.rankers.logistic import LogisticRanker
from ranking.rankers.ranker import Ranker

_AT_ONCE = 256


def vector_cache(folder: Path | None = None, memory_bytes: int = MEMORY_BYTES) -> SourceCache[Embedded]:
    """An empty cache of vectors."""
    return SourceCache(Embedded._asdict, _unpacked, folder=folder, memory_bytes=memory_bytes)


def encode_source(
    encoder: TextVectors, sentences: Sequence[str], report: Callable[[int], None] = lambda encoded: None
) -> Embedded:
    """A row for every sentence, in parts, so that progress can be shown; equal sentences are encoded once."""
    places = {text: row for row, text in enumerate(dict.fromkeys(sentences))}
    distinct = list(places)
    parts = []
    for start in range(0, max(1, len(distinct)), _AT_ONCE):
        parts.append(encoder.embed(distinct[start : start + _AT_ONCE]))
        if start + _AT_ONCE < len(distinct):
            report(start + _AT_ONCE)
    report(len(sentences))
    vectors, cut = (np.concatenate(all_) for all_ in zip(*parts, strict=True))
    rows = [places[text] for text in sentences]
    return Embedded(vectors[rows], cut[rows])


class SourceVectors:
    """Vectors of a source's sentences from a cache, and of all other texts from an encoder."""

    def __init__(
        self,
        encoder: TextVectors,
        sentences: Sequence[str],
        folder: Path | None,
        report: Callable[[int], None] = lambda encoded: None,
    ) -> None:
        """Encode nothing yet.

        Args:
            encoder: Makes what is not there.
            sentences: Of the source.
            folder: Where files are kept; None keeps vectors in memory only.
            report: Called with the number of sentences encoded.
        """
        self._encoder = encoder
        self._report = report
        self._sentences = tuple(sentences)
        self._places: dict[str, int] = {text: place for place, text in enumerate(self._sentences)}
        self._cache = vector_cache(folder)
        self.encoded = False
        """Whether the source had to be encoded."""

    @property
    def identity(self) -> str:
        """The encoder's: the vectors are the same."""
        return self._encoder.identity

    def embed(self, texts: Sequence[str]) -> Embedded:
        """A row for every text."""
        source = self._cache.get([self.identity, *self._sentences], self._encode)
        others = list(dict.fromkeys(text for text in texts if text not in self._places))
        fresh = self._encoder.embed(others)
        vectors = np.zeros((len(texts), source.vectors.shape[1]), dtype=np.float32)
        cut = np.zeros(len(texts), dtype=np.bool_)
        place_of_other = {text: place for place, text in enumerate(others)}
        for row, text in enumerate(texts):
            known = text in self._places
            where, place = (source, self._places[text]) if known else (fresh, place_of_other[text])
            vectors[row], cut[row] = where.vectors[place], where.cut[place]
        return Embedded(vectors, cut)

    def _encode(self) -> Embedded:
        self.encoded = True
        return encode_source(self._encoder, self._sentences, self._report)


def _unpacked(arrays: Arrays) -> Embedded:
    vectors, cut = arrays["vectors"], arrays["cut"]
    if vectors.ndim != 2 or len(vectors) != len(cut) or not np.isfinite(vectors).all():
        raise ValueError("no vectors of sentences")
    return Embedded(vectors.astype(np.float32, copy=False), cut.astype(np.bool_))


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
        folder: Where vectors are kept; None for memory only.
        report: Called with the number of sentences of the source encoded.

    Returns:
        A ranker that scores the same, and the vectors; None where the ranker keeps none.
    """
    if folder is not None and isinstance(ranker, KeepsSources):
        ranker.keep_sources(folder)
    if not isinstance(ranker, LogisticRanker):
        return ranker, None
    vectors = SourceVectors(shared_vectors(), sentences, folder, report)
    return LogisticRanker(ranker.weights, vectors), vectors
