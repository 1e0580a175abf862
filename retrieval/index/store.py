"""What every store of vectors can do, and the arithmetic that all share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ranking.encoding.vectors import Vectors
from storage.errors import InputError

DIGITS = 6
"""Similarities are rounded to so many: equal vectors differ in the last bit by the place of their block."""


class Nearest(NamedTuple):
    """The nearest documents of one query, nearest first; each of shape (found,).

    Attributes:
        numbers: Of the documents, in the order of the corpus, from 0.
        similarities: Cosines, rounded to `DIGITS`.
    """

    numbers: NDArray[np.int64]
    similarities: Vectors


NONE = Nearest(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))


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
        """Store vectors of shape (ids, dimensions); what is stored already under a number is replaced.

        They are on disk when this returns. A kill in between leaves some, the others are missing.
        """

    def vectors(self, first: int, count: int) -> Vectors:
        """Stored vectors from number `first` on, at most `count`; shape (found, dimensions)."""

    def search(self, queries: Vectors, k: int) -> list[Nearest]:
        """The `k` nearest of each query; queries have shape (queries, dimensions)."""

    def close(self) -> None: ...


def best(found: Nearest, k: int) -> Nearest:
    """The `k` most similar, most similar first; equals by their numbers, which come ascending."""
    numbers, similarities = found
    if similarities.size > k:
        least = np.partition(similarities, -k)[-k]
        kept = np.flatnonzero(similarities >= least)
        numbers, similarities = numbers[kept], similarities[kept]
    order = np.argsort(-similarities, kind="stable")[:k]
    return Nearest(numbers[order], similarities[order])


def by_number(numbers: Sequence[int], similarities: Sequence[float]) -> Nearest:
    """What another program found, rounded and with equals in the order of the corpus."""
    rounded: Vectors = np.asarray(similarities, dtype=np.float32).round(DIGITS)
    ordered = np.asarray(numbers, dtype=np.int64)
    order = np.lexsort((ordered, -rounded))
    return Nearest(ordered[order], rounded[order])


def products(block: Vectors, queries: Vectors) -> Vectors:
    """Similarities of vectors with queries, rounded; shape (queries, vectors).

    One query needs no matrix product, whose threads wait for each other where other work goes on.
    """
    if len(queries) == 1:
        found: Vectors = np.vecdot(block, queries[0])[None, :]
    else:
        found = queries @ block.T
    return np.round(found, DIGITS, out=found)


def exact(blocks: Iterable[tuple[int, Vectors]], queries: Vectors, k: int) -> list[Nearest]:
    """The `k` nearest of each query over blocks of vectors, each with its first number, ascending."""
    found = [NONE] * len(queries)
    for first, block in blocks:
        merge(found, first, products(block, queries), k)
    return found


def merge(found: list[Nearest], first: int, similarities: Vectors, k: int) -> None:
    """Put a further block's similarities, of shape (queries, vectors), into what each query has found."""
    for query, row in enumerate(similarities):
        before = found[query]
        # A later document has to be better than the least of those that are full already.
        full = before.similarities.size == k
        kept = np.flatnonzero(row > before.similarities[-1]) if full else np.arange(row.size)
        more = best(Nearest(kept + first, row[kept]), k)
        numbers = np.concatenate([before.numbers, more.numbers])
        both = np.concatenate([before.similarities, more.similarities])
        found[query] = best(Nearest(numbers, both), k)


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
