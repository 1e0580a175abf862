"""Vectors as bytes: a quarter of the memory, each vector with a scale of its own.

A scale a vector needs no pass over all vectors before the first is stored, so that an index grows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrieval.embeddings import Vectors
from retrieval.index.store import NONE, Nearest, merge, products

_ROWS = 2048
"""Vectors that become floats at once: they stay in the processor's cache."""

_MAX_INT8 = 127


class Quantised(NamedTuple):
    """Vectors of `values * scales`.

    Attributes:
        values: Shape (vectors, dimensions).
        scales: Shape (vectors,).
    """

    values: NDArray[np.int8]
    scales: Vectors


def quantise(vectors: Vectors) -> Quantised:
    """The largest value of each vector becomes 127; shape (vectors, dimensions)."""
    scales = np.abs(vectors).max(axis=1, initial=0.0) / _MAX_INT8
    divided = np.divide(vectors, scales[:, None], out=np.zeros_like(vectors), where=scales[:, None] > 0)
    return Quantised(np.rint(divided).astype(np.int8), scales.astype(np.float32))


def scan(parts: Iterable[tuple[int, Quantised]], queries: Vectors, k: int) -> list[Nearest]:
    """The `k` nearest of each query by bytes, over parts with their first numbers, ascending."""
    found = [NONE] * len(queries)
    for first, part in parts:
        similarities = np.empty((len(queries), len(part.values)), dtype=np.float32)
        for start in range(0, len(part.values), _ROWS):
            rows = slice(start, start + _ROWS)
            similarities[:, rows] = products(part.values[rows].astype(np.float32), queries)
        similarities *= part.scales
        merge(found, first, similarities, k)
    return found
