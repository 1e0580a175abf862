"""Vectors in mapped files, compared one by one: the exact reference."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cases.texts import hash64
from ranking.encoding.vectors import Vectors
from retrieval.index.connect_store import StorePlace
from retrieval.index.store import VectorStore, exact
from retrieval.protocols import NONE, Found
from storage.errors import InputError

ROWS = 50_000
"""Vectors of a part."""

_PRODUCTS = 4_000_000
"""Similarities that are in memory at once."""


def open_store(place: StorePlace) -> VectorStore:
    """Open or begin a store."""
    return NumpyStore(place.folder, place.dimensions)


class NumpyStore:
    """Float vectors in parts of `ROWS`.

    A part is two files of equal rows: `.f32` the vectors, `.ids` a hash of each document's id. A row that a
    kill has torn is cut off when the store is opened for writing.
    """

    def __init__(self, folder: Path, dimensions: int, *, rows: int = ROWS) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._dimensions, self._rows = folder, dimensions, rows
        self._kinds: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {
            "f32": (np.dtype("<f4"), (dimensions,)),
            "ids": (np.dtype("<u8"), ()),
        }
        self._parts: list[dict[str, NDArray[Any]]] = []
        self._map()

    @property
    def count(self) -> int:
        return sum(len(part["ids"]) for part in self._parts)

    def stored(self, first: int, ids: Sequence[str]) -> NDArray[np.bool_]:
        known = min(max(self.count - first, 0), len(ids))
        hashes = np.array([hash64(id_) for id_ in ids[:known]], dtype=np.uint64)
        kept = np.concatenate([np.empty(0, dtype=np.uint64), *self._slices("ids", first, known)])
        other = np.flatnonzero(kept != hashes)
        if other.size:
            raise InputError(
                self._folder,
                f"holds another document where the corpus has {ids[int(other[0])]!r}",
                "Build into another folder",
            )
        return np.arange(len(ids)) < known

    def add(self, first: int, ids: Sequence[str], vectors: Vectors) -> None:
        """Append, behind the last whole row.

        Raises:
            ValueError: The first of them is not the next: rows have no gaps.
        """
        if first != self.count:
            raise ValueError(f"the next vector has number {self.count}, not {first}")
        hashes = np.array([hash64(id_) for id_ in ids], dtype=np.uint64)
        for start, end in self._pieces(first, len(ids)):
            rows = slice(start - first, end - first)
            self._append(start, "f32", vectors[rows])
            self._append(start, "ids", hashes[rows])
        self._map(first // self._rows)

    def vectors(self, first: int, count: int) -> Vectors:
        empty = np.empty((0, self._dimensions), dtype=np.float32)
        return np.concatenate([empty, *self._slices("f32", first, count)])

    def search(self, queries: Vectors, k: int) -> list[Found]:
        return exact(self._blocks(len(queries)), queries, k) if k > 0 else [NONE] * len(queries)

    def close(self) -> None:
        self._parts = []

    def _blocks(self, queries: int) -> Sequence[tuple[int, Vectors]]:
        size = max(1, _PRODUCTS // max(1, queries))
        return [
            (number * self._rows + start, part["f32"][start : start + size])
            for number, part in enumerate(self._parts)
            for start in range(0, len(part["f32"]), size)
        ]

    def _slices(self, kind: str, first: int, count: int) -> list[NDArray[Any]]:
        return [
            self._parts[start // self._rows][kind][start % self._rows : start % self._rows + end - start]
            for start, end in self._pieces(first, min(count, self.count - first))
        ]

    def _pieces(self, first: int, count: int) -> Iterator[tuple[int, int]]:
        """Split a range of numbers where parts end."""
        end = first + count
        while first < end:
            border = min(end, (first // self._rows + 1) * self._rows)
            yield first, border
            first = border

    def _append(self, first: int, kind: str, values: NDArray[Any]) -> None:
        number, row = divmod(first, self._rows)
        dtype, shape = self._kinds[kind]
        path = self._path(number, kind)
        with path.open("r+b" if path.exists() else "x+b") as file:
            # Bytes after the last complete row were torn by a kill.
            file.truncate(row * dtype.itemsize * int(np.prod(shape)))
            file.seek(0, os.SEEK_END)
            file.write(np.ascontiguousarray(values, dtype=dtype).tobytes())
            file.flush()
            os.fsync(file.fileno())

    def _map(self, first: int = 0) -> None:
        """Map the parts from this one on; a part that is not full is the last."""
        del self._parts[first:]
        while len(self._parts) == first and (rows := self._whole_rows(first)):
            self._parts.append({kind: self._mapped(first, kind, rows) for kind in self._kinds})
            first += rows == self._rows

    def _whole_rows(self, number: int) -> int:
        counts = []
        for kind, (dtype, shape) in self._kinds.items():
            path = self._path(number, kind)
            size = path.stat().st_size if path.exists() else 0
            counts.append(size // (dtype.itemsize * int(np.prod(shape))))
        return min(counts)

    def _mapped(self, number: int, kind: str, rows: int) -> NDArray[Any]:
        dtype, shape = self._kinds[kind]
        # Slices of a memmap cost several times those of the array that it is.
        return np.memmap(self._path(number, kind), dtype, "r", shape=(rows, *shape)).view(np.ndarray)

    def _path(self, number: int, kind: str) -> Path:
        return self._folder / f"{number:05}.{kind}"
