"""Documents for a question: by their vectors, by their words, or by both (Verma et al. 2025, section 3.1).

If a cross-encoder reads the retrieved texts, the state carries them for one step: a thousand abstracts are 2
MB, and it passes on only the few that are read later. Without a cross-encoder only those few are kept. The
trace names the best and counts the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal, NamedTuple, NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.texts import plural
from nodes.core.context import Context
from nodes.core.facts import plain
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, decision
from nodes.retrieval.document_records import FoundDocument, RankedDocument
from nodes.retrieval.document_settings import DocumentSettings
from nodes.retrieval.document_texts import (
    CORPUS,
    FOUND_DOCUMENTS,
    INDEX,
    NOTHING_FOUND,
    SHOWN_IN_TRACE,
    found_document,
    of_documents,
)
from ranking.rankers.ensembles import Fused, reciprocal_rank_fusion
from retrieval.protocols import DocumentCollection, Hit

Retriever = Literal["dense", "words"]


class RetrieveDocumentsInput(TypedDict):
    """Without queries, the question is the only one."""

    case_id: str
    patient_question: NotRequired[str]
    queries: NotRequired[list[str]]


class RetrieveDocumentsUpdate(TypedDict):
    """Documents are sorted best first. Without a cross-encoder, their order replaces its ranking."""

    found_documents: list[FoundDocument]
    cross_encoder_ranking: NotRequired[list[RankedDocument]]
    decisions: list[Decision]


class _Found(NamedTuple):
    """Results of one retriever for one query; `query` counts from 0, which is the question."""

    query: int
    retriever: Retriever
    hits: list[Hit]


async def retrieve_documents(
    state: RetrieveDocumentsInput, runtime: Runtime[Context]
) -> RetrieveDocumentsUpdate:
    """Search for every query with every retriever of the recipe, and fuse the results by rank."""
    context = runtime.context
    settings = context.section(DocumentSettings)
    question = state.get("patient_question", context.cases[state["case_id"]].question)
    queries = state.get("queries", [question])
    retrievers: tuple[Retriever, ...] = (
        ("dense", "words") if settings.retriever == "hybrid" else (settings.retriever,)
    )
    searches = [
        _search(context, number, query, retriever, settings.depth)
        for number, query in enumerate(queries)
        for retriever in retrievers
    ]
    lists = await asyncio.gather(*searches)
    ranking = _ranking(lists, settings.rrf_k)
    found = _records(lists, ranking[: settings.depth])
    update: RetrieveDocumentsUpdate = {
        "found_documents": found,
        "decisions": decision(
            "retrieve_documents",
            _because(settings.retriever, lists, len(ranking), len(found)),
            {
                "documents": of_documents(found[:SHOWN_IN_TRACE]),
                "lists": [
                    {"query": one.query, "retriever": one.retriever, "found": len(one.hits)} for one in lists
                ],
                "different": len(ranking),
                "found": len(found),
                "depth": settings.depth,
                "corpus": _identity(context.find(CORPUS)),
                "index": _identity(context.find(INDEX)),
            },
            flags=[] if found else ["nothing_found"],
        ),
    }
    if settings.reranker is None:
        kept = found[: settings.reranked]
        update["found_documents"] = kept
        update["cross_encoder_ranking"] = of_documents(kept)
    return update


async def _search(context: Context, number: int, query: str, retriever: Retriever, depth: int) -> _Found:
    if retriever == "dense":
        return _Found(number, retriever, await context.tool(INDEX).asearch(query, depth))
    return _Found(number, retriever, await asyncio.to_thread(context.tool(CORPUS).search, query, depth))


def _ranking(lists: Sequence[_Found], k: int) -> list[Fused]:
    """One list keeps its own scores; several are fused by their places."""
    if len(lists) == 1:
        return [Fused(hit.document.id, hit.score) for hit in lists[0].hits]
    return reciprocal_rank_fusion([[hit.document.id for hit in one.hits] for one in lists], k)


def _records(lists: Sequence[_Found], ranking: Sequence[Fused]) -> list[FoundDocument]:
    by_id = {hit.document.id: hit.document for one in reversed(lists) for hit in one.hits}
    return [found_document(by_id[one.id], rank, one.score) for rank, one in enumerate(ranking, start=1)]


def _because(retriever: str, lists: Sequence[_Found], different: int, kept: int) -> str:
    if not kept:
        return f"the search by {_kind(retriever)} found no document"
    if len(lists) == 1:
        return f"{plural(kept, 'document')} by {_kind(retriever)}"
    queries = len({one.query for one in lists})
    asked = "the question" if queries == 1 else f"{queries} queries"
    return (
        f"the best {kept:,} of {plural(different, 'document')} by {_kind(retriever)} for {asked}:"
        f" {len(lists)} lists, fused by rank"
    )


def _kind(retriever: str) -> str:
    return {"dense": "vectors", "words": "words", "hybrid": "vectors and words"}[retriever]


def _identity(searched: DocumentCollection | None) -> str | None:
    return None if searched is None else searched.identity


RETRIEVE_DOCUMENTS = NodeSpec(
    run=retrieve_documents,
    sections=(DocumentSettings,),
    tools=(CORPUS, INDEX),
    facts={
        "documents": FOUND_DOCUMENTS,
        **plain("lists", "different", "found", "depth", "corpus", "index"),
    },
    flags=NOTHING_FOUND,
    is_off=lambda recipe: not recipe.section(DocumentSettings).finds,
)
