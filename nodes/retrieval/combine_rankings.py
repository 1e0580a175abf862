"""The documents of the answer, from both rankings (Verma et al. 2025, section 3.2.4).

No score is too low: BioASQ takes ten documents, and so many are given wherever there are as many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.texts import plural
from nodes.core.context import Context
from nodes.core.facts import plain, whole
from nodes.core.node import Column, NodeSpec
from nodes.core.records import Decision, decision
from nodes.retrieval.document_records import RankedDocument
from nodes.retrieval.document_settings import DocumentSettings
from nodes.retrieval.document_texts import DOCUMENT_RANKING, ranked
from ranking.rankers.ensembles import Ranking, nominate, weighted_scores


class CombineRankingsInput(TypedDict):
    """A model's ranking is only present if the recipe requests one."""

    cross_encoder_ranking: list[RankedDocument]
    llm_ranking: NotRequired[list[RankedDocument]]


class CombineRankingsUpdate(TypedDict):
    document_ranking: list[RankedDocument]
    decisions: list[Decision]


async def combine_rankings(state: CombineRankingsInput, runtime: Runtime[Context]) -> CombineRankingsUpdate:
    """Take the ensemble that the recipe names; a single ranking is used unchanged."""
    settings = runtime.context.section(DocumentSettings)
    first, second = state["cross_encoder_ranking"], state.get("llm_ranking")
    if second is None:
        made = first[: settings.kept]
        because = f"{plural(len(made), 'document')} of the only ranking"
        facts: dict[str, Any] = {"ensemble": None}
    else:
        made = _combined(settings, first, second)
        because = f"{plural(len(made), 'document')} {_weighting(settings)}"
        facts = _facts(settings)
    return {
        "document_ranking": made,
        "decisions": decision(
            "combine_rankings",
            because,
            {
                "ranking": made,
                **facts,
                "first": [one["id"] for one in first],
                "first_scores": [one["score"] for one in first],
                "second": None if second is None else [one["id"] for one in second],
            },
            flags=["fewer_documents"] if len(made) < settings.kept else [],
        ),
    }


def _combined(
    settings: DocumentSettings, first: Sequence[RankedDocument], second: Sequence[RankedDocument]
) -> list[RankedDocument]:
    ids, others = [one["id"] for one in first], [one["id"] for one in second]
    kept = settings.kept
    if settings.ensemble == "llm":
        taken = list(dict.fromkeys([*others, *ids]))[:kept]
        return ranked(taken, [None] * len(taken))
    if settings.ensemble == "nomination":
        taken = nominate(ids, others, kept, settings.nominated)
        return ranked(taken, [None] * len(taken))
    scores = weighted_scores(
        _ranking(first), _ranking(second), settings.weights, settings.cross_encoder_score, settings.llm_score
    )
    best = list(scores.items())[:kept]
    return ranked([id_ for id_, _ in best], [score for _, score in best])


def _ranking(ranking: Sequence[RankedDocument]) -> Ranking:
    scores = [one["score"] for one in ranking if one["score"] is not None]
    ids = tuple(one["id"] for one in ranking)
    return Ranking(ids, tuple(scores) if len(scores) == len(ids) else None)


def _facts(settings: DocumentSettings) -> dict[str, Any]:
    if settings.ensemble == "nomination":
        return {"ensemble": "nomination", "nominated": settings.nominated}
    if settings.ensemble == "llm":
        return {"ensemble": "llm"}
    return {
        "ensemble": "weighted",
        "weights": list(settings.weights),
        "scores_from": [settings.cross_encoder_score, settings.llm_score],
    }


def _weighting(settings: DocumentSettings) -> str:
    if settings.ensemble == "nomination":
        return f"by nomination: {settings.nominated} of {settings.first_ranker}, then those of the model"
    if settings.ensemble == "llm":
        return "in the order of the model"
    first, second = settings.weights
    return (
        f"by weighted scores: {first:g} x {settings.cross_encoder_score} of {settings.first_ranker},"
        f" {second:g} x {settings.llm_score} of the model"
    )


COMBINE_RANKINGS = NodeSpec(
    run=combine_rankings,
    sections=(DocumentSettings,),
    results={"document_ranking": whole},
    columns={
        "documents": Column(
            lambda line: str(len(line["document_ranking"])) if line["document_ranking"] else ""
        )
    },
    facts={
        "ranking": DOCUMENT_RANKING,
        **plain("ensemble", "nominated", "weights", "scores_from", "first", "first_scores", "second"),
    },
    flags={"fewer_documents": "fewer documents were found than an answer takes"},
    is_off=lambda recipe: not recipe.section(DocumentSettings).finds,
)
