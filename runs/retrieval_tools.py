"""What retrieval from notes and citations need beside models: rankers, vectors, acronyms."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from nodes.core.settings import Settings
from ranking.load import load_ranker
from ranking.prepared import load_acronyms
from ranking.ranker import Ranker
from ranking.vectors import TextVectors, shared_vectors
from runs.manifest import Retrieval

RETRIEVAL = "retrieve_sentences"
ATTRIBUTION = "attribute_answer"
DOCUMENT_RERANKING = "rerank_documents"


class RetrievalTools(NamedTuple):
    """Named as in the context of nodes; each None where the recipe, or the graph, wants none."""

    retriever: Ranker | None = None
    reranker: Ranker | None = None
    vectors: TextVectors | None = None
    acronyms: Mapping[str, str] | None = None
    document_reranker: Ranker | None = None

    def describe(self) -> Retrieval | None:
        """For the manifest."""
        if self.retriever is None:
            return None
        return Retrieval(
            retriever=self.retriever.identity,
            reranker=self.reranker.identity if self.reranker else None,
            vectors=self.vectors.identity if self.vectors else None,
            acronyms_sha256=_sha256(self.acronyms) if self.acronyms is not None else None,
        )


def load_retrieval(recipe: Settings, nodes: Collection[str]) -> RetrievalTools:
    """Make ready what the nodes of a graph need.

    Raises:
        RankerError: A ranker is unknown, or cannot be used.
        WeightsError: The weights of an encoder are not there.
        InputError: The table of acronyms cannot be read.
    """
    if RETRIEVAL not in nodes:
        return RetrievalTools(document_reranker=_document_reranker(recipe, nodes))
    wanted = recipe.retrieval
    attributes = ATTRIBUTION in nodes and ATTRIBUTION not in recipe.switched_off
    return RetrievalTools(
        retriever=load_ranker(wanted.retriever),
        reranker=load_ranker(wanted.reranker) if wanted.reranker is not None else None,
        vectors=shared_vectors() if attributes and recipe.citation.weights.semantic else None,
        acronyms=load_acronyms(Path(wanted.acronyms) if wanted.acronyms else None)
        if wanted.expand_acronyms
        else None,
        document_reranker=_document_reranker(recipe, nodes),
    )


def _document_reranker(recipe: Settings, nodes: Collection[str]) -> Ranker | None:
    """What scores whole documents; None where the recipe names nothing, or looks for no documents."""
    wanted = recipe.documents
    if DOCUMENT_RERANKING not in nodes or not wanted.finds or wanted.reranker is None:
        return None
    return load_ranker(wanted.reranker)


def _sha256(table: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
