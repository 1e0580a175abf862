"""Sentence vectors of one source, computed once and kept in a file: a second look at it encodes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, runtime_checkable
from zipfile import BadZipFile

import numpy as np

from ranking.logistic import LogisticRanker
from ranking.ranker import Ranker
from ranking.vectors import Embedded, TextVectors, shared_vectors

_AT_ONCE = 256
_READ_FAULTS = (OSError, ValueError, KeyError, EOFError, BadZipFile)


class SourceVectors:
    """Vectors of a source's sentences from memory or file, and of all other texts from an encoder.

    A file holds numbers alone and no text; its name is a hash of encoder and sentences, so another encoder or
    a changed source never meets it. A damaged file is made again.
    """

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
            folder: Where files are kept; None keeps vectors in memory alone.
            report: Called with the number of sentences encoded.
        """
        self._encoder = encoder
        self._report = report
        self._sentences = tuple(sentences)
        self._places: dict[str, int] = {text: place for place, text in enumerate(self._sentences)}
        self._file = folder / f"{_key(encoder, self._sentences)}.npz" if folder else None
        self._source: Embedded | None = None
        self.encoded = False
        """Whether the source had to be encoded."""

    @property
    def identity(self) -> str:
        """The encoder's: the vectors are the same."""
        return self._encoder.identity

    def embed(self, texts: Sequence[str]) -> Embedded:
        """A row for every text."""
        source = self.source()
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

    def source(self) -> Embedded:
        """A row for every sentence of the source."""
        if self._source is None:
            self._source = self._read()
        if self._source is None:
            self._source = self._encode()
            self.encoded = True
            self._write(self._source)
        return self._source

    def _encode(self) -> Embedded:
        """In parts, so that progress can be shown; equal sentences once."""
        distinct = list(self._places)
        parts = []
        for start in range(0, max(1, len(distinct)), _AT_ONCE):
            parts.append(self._encoder.embed(distinct[start : start + _AT_ONCE]))
            if start + _AT_ONCE < len(distinct):
                self._report(start + _AT_ONCE)
        vectors, cut = (np.concatenate(all_) for all_ in zip(*parts, strict=True))
        self._report(len(self._sentences))
        if len(distinct) == len(self._sentences):
            return Embedded(vectors, cut)
        place = {text: row for row, text in enumerate(distinct)}
        rows = [place[text] for text in self._sentences]
        return Embedded(vectors[rows], cut[rows])

    def _read(self) -> Embedded | None:
        if self._file is None:
            return None
        try:
            # Opened here: of a damaged file numpy would leave its own handle open.
            with self._file.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                vectors, cut = arrays["vectors"], arrays["cut"]
        except _READ_FAULTS:
            return None
        count = len(self._sentences)
        sound = vectors.ndim == 2 and len(vectors) == count == len(cut) and np.isfinite(vectors).all()
        return Embedded(vectors.astype(np.float32, copy=False), cut.astype(np.bool_)) if sound else None

    def _write(self, source: Embedded) -> None:
        """Leave a file behind, for its owner alone; a cache that cannot be written is no fault."""
        if self._file is None:
            return
        temporary = self._file.with_name(f".{secrets.token_hex(8)}.tmp")
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    np.savez(file, vectors=source.vectors, cut=source.cut)
                temporary.replace(self._file)
            finally:
                temporary.unlink(missing_ok=True)


def _key(encoder: TextVectors, sentences: Sequence[str]) -> str:
    content = json.dumps([encoder.identity, *sentences])
    return hashlib.sha256(content.encode()).hexdigest()


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
