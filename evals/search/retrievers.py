"""A corpus searched in every way that there is for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from nodes.retrieval.document_texts import passage
from ranking.rankers.ensembles import reciprocal_rank_fusion
from retrieval.corpus.corpus import Corpus
from retrieval.protocols import DenseIndex, Hit
from serving.policy.gate import hold_for
from storage.errors import InputError

RetrieverName = Literal["words", "dense", "hybrid"]


class Scored(NamedTuple):
    """A document that was found; texts stay in the corpus."""

    id: str
    score: float


class Retrievers:
    """Words, and with an index vectors and the fusion of both."""

    def __init__(self, corpus: Corpus, index: DenseIndex | None = None) -> None:
        self.corpus = corpus
        self.index = index

    @classmethod
    def open(cls, corpus: Path, index: Path | None) -> Retrievers:
        """Open folders.

        Raises:
            InputError: A folder holds no finished corpus or index, or they are of different documents.
            ModelError, WeightsError: The embedder of the index or the package of its store is not there.
        """
        hold_for([corpus] if index is None else [corpus, index])
        opened = Corpus.open(corpus)
        if index is None:
            return cls(opened)
        # Imports the stores of vectors, which a search by words does without.
        from retrieval.index.index import Index

        return cls(opened, Index.open(index, opened))

    @property
    def names(self) -> tuple[RetrieverName, ...]:
        return ("words",) if self.index is None else ("words", "dense", "hybrid")

    @property
    def identity(self) -> str:
        """Equal identities find the same documents."""
        return self.corpus.identity if self.index is None else f"{self.corpus.identity} {self.index.identity}"

    def chosen(self, name: RetrieverName | None) -> RetrieverName:
        """The one that is asked for, by default the fusion where there is an index.

        Raises:
            InputError: It needs an index, and there is none.
        """
        if name is None:
            return self.names[-1]
        if name not in self.names:
            raise InputError(
                "--retriever", f"{name} needs an index of vectors", "Give it with --index FOLDER"
            )
        return name

    async def search(self, query: str, depth: int) -> Mapping[RetrieverName, list[Scored]]:
        """The best of each way, best first."""
        by_words = asyncio.to_thread(self.corpus.search, query, depth)
        if self.index is None:
            return {"words": _scored(await by_words)}
        words, dense = map(_scored, await asyncio.gather(by_words, self.index.asearch(query, depth)))
        # In the order of the node, which decides ties.
        fused = reciprocal_rank_fusion([[one.id for one in ranking] for ranking in (dense, words)])
        hybrid = [Scored(one.id, one.score) for one in fused[:depth]]
        return {"words": words, "dense": dense, "hybrid": hybrid}

    def passages(self, ids: Sequence[str]) -> list[str]:
        """Title and abstract of documents of the corpus."""
        found = [self.corpus.document(id_) for id_ in ids]
        return [passage(one.title, one.text) for one in found if one is not None]

    def known(self, ids: Sequence[str]) -> list[str]:
        return [id_ for id_ in ids if self.corpus.document(id_) is not None]


def _scored(hits: Sequence[Hit]) -> list[Scored]:
    return [Scored(hit.document.id, hit.score) for hit in hits]
