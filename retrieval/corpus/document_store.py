"""The texts of one part: compressed in small blocks, any document read alone."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from cases.literature import Document
from retrieval.corpus.arrays import write_array

# A document is unpacked together with its block. In record batches of Arrow it took five times as long.
_BLOCK = 16
_SIZE_BYTES = 4
_TEXTS, _BLOCKS = "documents.zst", "blocks.npy"
_FIELDS = ("id", "title", "text", "year", "citations", "study_types", "source")


class DocumentWriter:
    """Writes documents in their order."""

    def __init__(self, folder: Path) -> None:
        """Open the files of a new store in an existing folder."""
        self._folder = folder
        self._file = (folder / _TEXTS).open("xb")
        self._codec = pa.Codec("zstd")
        self._waiting: list[list[Any]] = []
        self._starts = [0]

    def add(self, document: Document) -> None:
        """Append a document."""
        self._waiting.append([getattr(document, field) for field in _FIELDS])
        if len(self._waiting) == _BLOCK:
            self._flush()

    def close(self, *, broken: bool = False) -> None:
        """Write what is missing, unless something broke; a second call does nothing."""
        if self._file.closed:
            return
        try:
            if not broken:
                self._flush()
                write_array(self._folder / _BLOCKS, np.array(self._starts, dtype=np.int64))
        finally:
            self._file.close()

    def _flush(self) -> None:
        if self._waiting:
            content = orjson.dumps(self._waiting)
            packed = self._codec.compress(content, asbytes=True)
            self._file.write(len(content).to_bytes(_SIZE_BYTES, "little") + packed)
            self._starts.append(self._starts[-1] + _SIZE_BYTES + len(packed))
            self._waiting.clear()


class DocumentReader:
    """Reads documents by their number. Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        """Map the files of a store."""
        self._starts = np.load(folder / _BLOCKS, mmap_mode="r").view(np.ndarray)
        with (folder / _TEXTS).open("rb") as file:
            # Nothing can be mapped of an empty file.
            self._texts = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self._starts[-1] else b""

    def read(self, number: int) -> Document:
        """One document."""
        block, row = divmod(number, _BLOCK)
        return _document(self._block(block)[row])

    def __iter__(self) -> Iterator[Document]:
        return self.since(0)

    def since(self, number: int) -> Iterator[Document]:
        """The documents from this one on."""
        first, row = divmod(number, _BLOCK)
        for block in range(first, self._starts.size - 1):
            yield from map(_document, self._block(block)[row if block == first else 0 :])

    def _block(self, number: int) -> list[list[Any]]:
        start, end = self._starts[number : number + 2].tolist()
        size = int.from_bytes(self._texts[start : start + _SIZE_BYTES], "little")
        packed = self._texts[start + _SIZE_BYTES : end]
        rows: list[list[Any]] = orjson.loads(pa.decompress(packed, size, codec="zstd", asbytes=True))
        return rows


def _document(row: list[Any]) -> Document:
    fields = dict(zip(_FIELDS, row, strict=True))
    return Document(**{**fields, "study_types": tuple(fields["study_types"])})
