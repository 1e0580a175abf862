"""One part of a corpus, with documents and postings: a folder that exists as a whole or not at all."""

from __future__ import annotations

import mmap
import shutil
from collections.abc import Iterator, Sequence
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from cases.documents import Document
from cases.texts import hash64
from retrieval.building import read_fields, write_fields
from retrieval.corpus.manifest import PART, PartManifest, Place, Tally
from retrieval.corpus.postings import Hashes, Postings, PostingsBuilder
from storage.files import write_atomically


def npy(values: NDArray[Any]) -> list[bytes]:
    """The content of a file, in pieces."""
    header = BytesIO()
    np.lib.format.write_array_header_2_0(header, np.lib.format.header_data_from_array_1_0(values))
    return [header.getvalue(), values.tobytes()]


# A document is unpacked together with its block. In record batches of Arrow it took five times as long.
_BLOCK = 16
_SIZE_BYTES = 4
_TEXTS, _BLOCKS = "documents.zst", "blocks.npy"
_FIELDS = ("id", "title", "text", "year", "citations", "study_types", "source")


class DocumentReader:
    """Reads documents by their number. Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        self._starts = np.load(folder / _BLOCKS, mmap_mode="r").view(np.ndarray)
        with (folder / _TEXTS).open("rb") as file:
            # Nothing can be mapped of an empty file.
            self._texts = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self._starts[-1] else b""

    def read(self, number: int) -> Document:
        block, row = divmod(number, _BLOCK)
        return _document(self._block(block)[row])

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


PARTS = "parts"
"""Folder of a corpus with one folder a part."""


def part_folder(corpus: Path, number: int) -> Path:
    """Folder of a part."""
    return corpus / PARTS / f"{number:05}"


class PartWriter:
    """Collects the documents of a part in a temporary folder; a context manager.

    Nothing is left of a part that was not finished.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._temporary = folder.with_name(f".{folder.name}.tmp")
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary.mkdir(parents=True)
        self._texts = (self._temporary / _TEXTS).open("xb")
        self._codec = pa.Codec("zstd")
        self._waiting: list[list[Any]] = []
        self._blocks = [0]
        self._postings = PostingsBuilder()
        self._ids: list[int] = []
        self.tally = Tally()

    def add(self, document: Document) -> None:
        self._waiting.append([getattr(document, field) for field in _FIELDS])
        if len(self._waiting) == _BLOCK:
            self._write_block()
        self._postings.add(f"{document.title} {document.text}")
        self._ids.append(hash64(document.id))
        self.tally.add(document)

    def finish(self, after: Place) -> None:
        """Put the part in its place; the next one begins at `after`."""
        if self._waiting:
            self._write_block()
        self._texts.close()
        postings = self._postings.build()
        ids = np.array(self._ids, dtype=np.uint64)
        order = np.argsort(ids, kind="stable")
        arrays: dict[str, NDArray[Any]] = {
            "blocks": np.array(self._blocks, dtype=np.int64),
            "ids": ids[order],
            "numbers": order.astype(np.int32),
            "terms": postings.terms,
            "occurrences": postings.occurrences,
            "starts": postings.starts,
            "documents": postings.documents,
            "counts": np.minimum(postings.counts, np.iinfo(np.uint16).max).astype(np.uint16),
        }
        for name, values in arrays.items():
            with (self._temporary / f"{name}.npy").open("xb") as file:
                file.writelines(npy(values))
        write_fields(self._temporary / PART, PartManifest(tally=self.tally, after=after))
        self._temporary.rename(self._folder)

    def _write_block(self) -> None:
        content = orjson.dumps(self._waiting)
        packed = self._codec.compress(content, asbytes=True)
        self._texts.write(len(content).to_bytes(_SIZE_BYTES, "little") + packed)
        self._blocks.append(self._blocks[-1] + _SIZE_BYTES + len(packed))
        self._waiting.clear()

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._texts.close()
        finally:
            shutil.rmtree(self._temporary, ignore_errors=True)


class Part:
    """A finished part, its arrays mapped when they are asked for."""

    def __init__(self, folder: Path) -> None:
        """Look at a folder.

        Raises:
            InputError: It holds no part.
        """
        self.folder = folder
        self.manifest = read_fields(folder / PART, PartManifest, "corpus")

    def __len__(self) -> int:
        return self.manifest.tally.documents

    @cached_property
    def texts(self) -> DocumentReader:
        return DocumentReader(self.folder)

    @cached_property
    def terms(self) -> Hashes:
        """Hashes of its terms, ascending; shape (terms,)."""
        return self._array("terms")

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Offsets of each term's postings, and the end of the last; shape (terms + 1,)."""
        return self._array("starts")

    @cached_property
    def occurrences(self) -> NDArray[np.int64]:
        """Occurrences of each term in all its documents together; shape (terms,)."""
        return self._array("occurrences")

    @cached_property
    def documents(self) -> NDArray[np.int32]:
        """Numbers of documents, by term; shape (postings,)."""
        return self._array("documents")

    @cached_property
    def ids(self) -> Hashes:
        """Hashes of the ids of its documents, ascending; shape (documents,)."""
        return self._array("ids")

    @cached_property
    def numbers(self) -> NDArray[np.int32]:
        """The document of each of `ids`; shape (documents,)."""
        return self._array("numbers")

    def postings(self) -> Postings:
        """All of them, with the counts in memory."""
        counts = self._array("counts").astype(np.int32)
        return Postings(self.terms, self.starts, self.documents, counts)

    def scores(self, name: str) -> NDArray[np.float32]:
        """The score of each posting; shape (postings,)."""
        return self._array(f"scores-{name}")

    def has_scores(self, name: str) -> bool:
        return self._path(f"scores-{name}").is_file()

    def write_scores(self, name: str, scores: NDArray[np.float32]) -> None:
        write_atomically(self._path(f"scores-{name}"), npy(scores))

    def drop_scores(self, but: str) -> None:
        for path in self.folder.glob("scores-*.npy"):
            if path != self._path(f"scores-{but}"):
                path.unlink()

    def find(self, document_id: str) -> int | None:
        hashed = np.array([hash64(document_id)], dtype=np.uint64)
        return self.find_all([document_id], hashed)[0]

    def find_all(self, document_ids: Sequence[str], hashes: Hashes) -> list[int | None]:
        """The number of the document with each id, whose hashes are given too."""
        places = np.minimum(np.searchsorted(self.ids, hashes), len(self) - 1)
        found: list[int | None] = [None] * len(document_ids)
        for position in np.flatnonzero(self.ids[places] == hashes).tolist():
            number = int(self.numbers[places[position]])
            # Two ids may share a hash.
            if self.texts.read(number).id == document_ids[position]:
                found[position] = number
        return found

    def _array(self, name: str) -> NDArray[Any]:
        # Slices of a memmap cost several times those of the array that it is.
        mapped: NDArray[Any] = np.load(self._path(name), mmap_mode="r")
        return mapped.view(np.ndarray)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"
