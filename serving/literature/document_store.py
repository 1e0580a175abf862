"""The texts of one part in an Arrow file: compressed in small batches, any document read alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from cases.literature import Document

# A document is unpacked together with its batch: 64 abstracts are some 90 kB, and 0.2 ms.
_BATCH = 64
_FIELDS: list[pa.Field[Any]] = [
    pa.field("id", pa.string(), nullable=False),
    pa.field("title", pa.string(), nullable=False),
    pa.field("text", pa.string(), nullable=False),
    pa.field("year", pa.int16()),
    pa.field("citations", pa.int64()),
    pa.field("study_types", pa.list_(pa.string()), nullable=False),
    pa.field("source", pa.string(), nullable=False),
]
_SCHEMA = pa.schema(_FIELDS)


class DocumentWriter:
    """Writes documents in their order."""

    def __init__(self, path: Path) -> None:
        """Open a new file."""
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        self._file = path.open("xb")
        self._writer = pa.ipc.new_file(self._file, _SCHEMA, options=options)
        self._waiting: list[Document] = []

    def close(self, *, broken: bool = False) -> None:
        """Write what is missing, unless something broke; a second call does nothing."""
        if self._file.closed:
            return
        try:
            if not broken:
                self._flush()
                self._writer.close()
        finally:
            self._file.close()

    def add(self, document: Document) -> None:
        """Append a document."""
        self._waiting.append(document)
        if len(self._waiting) == _BATCH:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            columns = [
                pa.array([getattr(document, field.name) for document in self._waiting], type=field.type)
                for field in _FIELDS
            ]
            self._writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))
            self._waiting.clear()


class DocumentReader:
    """Reads documents by their number. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        """Map a file."""
        self._file = pa.ipc.open_file(pa.memory_map(str(path)))
        self._lock = threading.Lock()

    def read(self, number: int) -> Document:
        """One document."""
        batch, row = divmod(number, _BATCH)
        with self._lock:
            found = self._file.get_batch(batch)
        return _documents(found.slice(row, 1))[0]

    def __iter__(self) -> Iterator[Document]:
        for number in range(self._file.num_record_batches):
            with self._lock:
                batch = self._file.get_batch(number)
            yield from _documents(batch)


def _documents(batch: pa.RecordBatch) -> Sequence[Document]:
    return [_document(row) for row in batch.to_pylist()]


def _document(row: dict[str, Any]) -> Document:
    return Document(**{**row, "study_types": tuple(row["study_types"])})
