"""Sentence vectors of one source, computed once: a second look at it encodes nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ranking.encoding.source_cache import Arrays, SourceCache
from ranking.encoding.vectors import Embedded, TextVectors

_AT_ONCE = 256
_MEMORY_BYTES = 32 * 2**20
"""20,000 sentences of the packaged encoder; a source that is larger is kept until the next one."""


class SourceVectors(SourceCache[Embedded]):
    """Vectors of sources, of each encoded once."""

    def __init__(self, encoder: TextVectors) -> None:
        super().__init__(Embedded._asdict, _unpacked, memory_bytes=_MEMORY_BYTES)
        self._encoder = encoder

    def embed(self, sentences: Sequence[str]) -> Embedded:
        """A row for every sentence of a source."""
        return self.get([self._encoder.identity, *sentences], lambda: self._encode(sentences))

    def _encode(self, sentences: Sequence[str]) -> Embedded:
        """In parts, so that progress can be shown; equal sentences are encoded once."""
        places = {text: row for row, text in enumerate(dict.fromkeys(sentences))}
        distinct = list(places)
        parts = []
        for start in range(0, max(1, len(distinct)), _AT_ONCE):
            parts.append(self._encoder.embed(distinct[start : start + _AT_ONCE]))
            if start + _AT_ONCE < len(distinct):
                self.report(start + _AT_ONCE)
        self.report(len(sentences))
        vectors, cut = (np.concatenate(all_) for all_ in zip(*parts, strict=True))
        rows = [places[text] for text in sentences]
        return Embedded(vectors[rows], cut[rows])


def _unpacked(arrays: Arrays) -> Embedded:
    vectors, cut = arrays["vectors"], arrays["cut"]
    if vectors.ndim != 2 or len(vectors) != len(cut) or not np.isfinite(vectors).all():
        raise ValueError("no vectors of sentences")
    return Embedded(vectors.astype(np.float32, copy=False), cut.astype(np.bool_))
