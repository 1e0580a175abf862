"""Interface of vector stores, and their shared arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ranking.encoding.vectors import Vectors
from retrieval.protocols import NONE, Found
from storage.errors import InputError

DIGITS = 6
"""Similarities are rounded to so many: equal vectors differ in the last bit by the place of their block."""


class VectorStore(Protocol):
    """Unit vectors of documents, numbered from 0 without a gap. Safe to search from several threads."""

    @property
    def count(self) -> int: ...

    def stored(self, first: int, ids: Sequence[str]) -> NDArray[np.bool_]:
        """Whether each document, numbered from `first` on, is stored; shape (ids,).

        Raises:
            InputError: A document with another id has the number of one of them.
        """

    def add(self, first: int, ids: Sequence[str], vectors: Vectors) -> None:
        """Store vectors of shape (ids, dimensions); replaces those stored under the same numbers.

        They are on disk when this returns. A kill in between leaves some, the others are missing.
        """

    def vectors(self, first: int, count: int) -> Vectors:
        """Stored vectors from number `first` on, at most `count`; shape (found, dimensions)."""

    def search(self, queries: Vectors, k: int) -> list[Found]:
        """The `k` nearest of each query; queries have shape (queries, dimensions)."""

    def close(self) -> None: ...


def by_number(numbers: Sequence[int], similarities: Sequence[float]) -> Found:
    """Results of another program, rounded and with ties in the order of the corpus."""
    rounded: Vectors = np.asarray(similarities, dtype=np.float32).round(DIGITS)
    ordered = np.asarray(numbers, dtype=np.int64)
    order = np.lexsort((ordered, -rounded))
    return Found(ordered[order], rounded[order])


def products(block: Vectors, queries: Vectors) -> Vectors:
    """Similarities of vectors with queries, rounded; shape (queries, vectors).

    One query avoids a matrix product, whose threads wait for each other when other work runs.
    """
    if len(queries) == 1:
        found: Vectors = np.vecdot(block, queries[0])[None, :]
    else:
        found = queries @ block.T
    return np.round(found, DIGITS, out=found)


def exact(blocks: Iterable[tuple[int, Vectors]], queries: Vectors, k: int) -> list[Found]:
    """The `k` nearest of each query over blocks of vectors, each with its first number, ascending."""
    found = [NONE] * len(queries)
    for first, block in blocks:
        similarities = products(block, queries)
        found = [before.merge(first, row, k) for before, row in zip(found, similarities, strict=True)]
    return found


def storable(document_id: str) -> str:
    """Without halves of surrogate pairs, which UTF-8 cannot hold."""
    return document_id.encode("utf-8", "replace").decode()


def refuse_others(folder: object, pairs: Iterable[tuple[str, str | None]]) -> None:
    """Compare ids of documents with those that are stored under their numbers; None is not stored.

    Raises:
        InputError: Two differ.
    """
    for document_id, known in pairs:
        if known is not None and known != storable(document_id):
            fault = f"holds the document {known!r} where the corpus has {document_id!r}"
            raise InputError(folder, fault, "Build into another folder")
