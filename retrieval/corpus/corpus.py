"""A corpus on disk, opened for searching: BM25 over parts that are mapped, not loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from bm25s import BM25
from numpy.typing import NDArray

from cases.documents import Document
from cases.texts import hash64, json_sha256
from retrieval.corpus.manifest import Manifest
from retrieval.corpus.part import Part, part_folder
from retrieval.corpus.postings import K1, B, Hashes, terms
from retrieval.protocols import NONE, Found, Hit
from storage.errors import InputError


class Corpus:
    """Documents that can be searched; safe to use from several threads.

    Scores are those of one index over all documents (k1 1.2, b 0.75), whatever the size of the parts.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self._parts = [
            _SearchedPart(part_folder(folder, number), manifest) for number in range(manifest.parts)
        ]
        self._firsts = np.cumsum([0, *(len(part.part) for part in self._parts)])

    @classmethod
    def open(cls, folder: Path) -> Corpus:
        """Open a finished corpus.

        Raises:
            InputError: There is none at `folder`, it is half built, or a part of it is damaged.
        """
        manifest = Manifest.read_finished(folder)
        try:
            return cls(folder, manifest)
        except (OSError, ValueError) as error:
            raise InputError(folder, f"this corpus is damaged: {error}", "Build it anew") from error

    @property
    def identity(self) -> str:
        """Equal for the same sources read, split into words and scored in the same way."""
        manifest = self.manifest
        given = [manifest.settings.model_dump(), [source.sha256 for source in manifest.sources]]
        return f"bm25:{json_sha256(given)[:16]}"

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def __iter__(self) -> Iterator[Document]:
        return self.since(0)

    def since(self, number: int) -> Iterator[Document]:
        """The documents from this one on, in their order, from 0."""
        for part, first in zip(self._parts, self._firsts.tolist(), strict=False):
            if number < first + len(part.part):
                yield from part.part.texts.since(max(0, number - first))

    def search(self, query: str, k: int) -> list[Hit]:
        """The `k` best documents, best first, ties by the order of the corpus.

        None of them has score 0, so there may be fewer, and none for a query of stop words alone.
        """
        return self.hits(self.find(terms(query), k))

    def hits(self, found: Found) -> list[Hit]:
        """What a search found, with its texts."""
        pairs = zip(found.numbers.tolist(), found.scores.tolist(), strict=True)
        return [Hit(rank, score, self.read(number)) for rank, (number, score) in enumerate(pairs, start=1)]

    def find(self, query: Sequence[str], k: int) -> Found:
        """Search by the terms of a query, without texts of results; repeated terms add up."""
        if not query or k < 1:
            return NONE
        # Sums of floats depend on their order: the same words in another order have the same scores.
        hashes = np.sort(np.array([hash64(term) for term in query], dtype=np.uint64))
        best = NONE
        for part, first in zip(self._parts, self._firsts.tolist(), strict=False):
            scores = part.scores(hashes)
            if scores is not None:
                best = best.merge(first, scores, k, above=0.0)
        return best

    def document(self, document_id: str) -> Document | None:
        """The document with this id; None where there is none."""
        for part in self._parts:
            number = part.part.find(document_id)
            if number is not None:
                return part.part.texts.read(number)
        return None

    def read(self, number: int) -> Document:
        """The document with this number in the order of the corpus, from 0."""
        place = int(np.searchsorted(self._firsts, number, side="right")) - 1
        return self._parts[place].part.texts.read(number - int(self._firsts[place]))


class _SearchedPart:
    """A part with the index of bm25s over it."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.part = Part(folder)
        # Scores are read, not computed here; the parameters are those that they were computed with.
        self._index = BM25(k1=K1, b=B, method="atire", idf_method="lucene")
        self._index.nonoccurrence_array = None
        self._index.scores = {
            "data": self.part.scores(manifest.scores),
            "indices": self.part.documents,
            "indptr": self.part.starts,
            "num_docs": len(self.part),
        }

    def scores(self, hashes: Hashes) -> NDArray[np.float32] | None:
        """Scores of all documents, shape (documents,); None if this part has no word of the query."""
        terms = self.part.terms
        if not terms.size:
            return None
        places = np.minimum(np.searchsorted(terms, hashes), terms.size - 1)
        columns = places[terms[places] == hashes]
        if not columns.size:
            return None
        scores: NDArray[np.float32] = self._index.get_scores_from_ids(columns)
        return scores
