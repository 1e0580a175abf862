"""Documents in the order of a cross-encoder (Verma et al. 2025, sections 3.2.1 and 3.2.2)."""

from __future__ import annotations

import asyncio
from typing import NotRequired, TypedDict

import numpy as np
from langgraph.runtime import Runtime

from cases.texts import plural
from nodes.core.context import Context
from nodes.core.facts import CUT_QUESTION, plain
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, decision, raised
from nodes.core.scores import demand_finite
from nodes.retrieval.document_records import FoundDocument, RankedDocument
from nodes.retrieval.document_settings import DocumentSettings
from nodes.retrieval.document_texts import (
    DOCUMENT_RANKING,
    DOCUMENT_RERANKER,
    passage,
    ranked,
)


class RerankDocumentsInput(TypedDict):
    case_id: str
    patient_question: NotRequired[str]
    found_documents: list[FoundDocument]


class RerankDocumentsUpdate(TypedDict):
    """Only documents of the ranking are passed on."""

    found_documents: list[FoundDocument]
    cross_encoder_ranking: list[RankedDocument]
    decisions: list[Decision]


async def rerank_documents(state: RerankDocumentsInput, runtime: Runtime[Context]) -> RerankDocumentsUpdate:
    """Score every document for the question, in a thread, and hand the best on.

    Scores are logits.

    Raises:
        NodeFailure: The ranker returned NaN or infinity.
    """
    context = runtime.context
    wanted = context.section(DocumentSettings).reranked
    documents = state["found_documents"]
    ranker = context.tool(DOCUMENT_RERANKER)
    question = state.get("patient_question", context.cases[state["case_id"]].question)
    texts = [passage(one["title"], one["text"]) for one in documents]
    result = await asyncio.to_thread(ranker.rank, question, texts)
    demand_finite(result.scores, f"reranker {ranker.identity}")
    # Of equal scores the one that the search found first.
    order = np.argsort(-result.scores, kind="stable")[:wanted].tolist()
    kept = [documents[place] for place in order]
    ranking = ranked([one["id"] for one in kept], result.scores[order].tolist())
    cut = len(result.cut_sentences)
    return {
        "found_documents": kept,
        "cross_encoder_ranking": ranking,
        "decisions": decision(
            "rerank_documents",
            f"the best {len(kept)} of {plural(len(documents), 'document')} by {ranker.identity}",
            {
                "ranking": ranking,
                "stage": "cross_encoder",
                "reranker": ranker.identity,
                "scored": len(documents),
                "found_at": {one["id"]: one["rank"] for one in kept},
                "cut_passages": cut,
            },
            flags=raised(cut_documents=cut, cut_question=result.query_cut),
        ),
    }


RERANK_DOCUMENTS = NodeSpec(
    run=rerank_documents,
    sections=(DocumentSettings,),
    tools=(DOCUMENT_RERANKER,),
    facts={
        "ranking": DOCUMENT_RANKING,
        **plain("stage", "reranker", "scored", "found_at", "cut_passages"),
    },
    flags={"cut_documents": "the reranker read only the beginning of some documents", **CUT_QUESTION},
    is_off=lambda recipe: not recipe.section(DocumentSettings).scores_documents,
)
