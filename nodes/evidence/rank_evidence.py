"""A ranker's vote on which sentences of the note are essential (TAMU 2026, sections 4.1.1 and 4.1.2)."""

from __future__ import annotations

import asyncio
from typing import NotRequired, TypedDict

import numpy as np
from langgraph.runtime import Runtime

from cases.texts import plural
from nodes.core.context import Context, Tool
from nodes.core.facts import (
    CUT_QUESTION,
    CUT_SENTENCES,
    Fact,
    id_list,
    in_brackets,
    plain,
    scores_by_id,
    whole,
)
from nodes.core.failure import demand_sentences
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, Vote, decision, raised
from nodes.core.scores import by_id, demand_finite, ranker_name
from nodes.evidence.settings import EvidenceSettings
from ranking.cutoffs import cutoff_text, select
from ranking.rankers.ranker import Ranker, Scores

RANKER: Tool[Ranker] = Tool("ranker")
"""Scores the sentences of a note."""


class RankEvidenceInput(TypedDict):
    case_id: str
    patient_question: NotRequired[str]


class RankEvidenceUpdate(TypedDict):
    """What the node owns.

    `ranker_vote` is numbered after the votes of the model. Its `confidence` is the sigmoid of the scores: a
    probability where the ranker was trained for one, and of BM25 or similarity none.
    """

    ranker_vote: Vote
    ranker_scores: dict[str, float]
    decisions: list[Decision]


async def rank_evidence(state: RankEvidenceInput, runtime: Runtime[Context]) -> RankEvidenceUpdate:
    """Score every sentence for the question, in a thread, and cut the ranking."""
    context = runtime.context
    ranker = context.tool(RANKER)
    case = context.cases[state["case_id"]]
    demand_sentences(case)
    question = state.get("patient_question", case.question)
    ranked = await asyncio.to_thread(ranker.rank, question, [sentence.text for sentence in case.sentences])
    demand_finite(ranked.scores, f"ranker {ranker.identity}")
    settings = context.section(EvidenceSettings)
    cutoff = settings.cutoff or ranker.cutoff
    essential = [case.sentence_ids[position] for position in select(cutoff, ranked.scores)]
    cut = [case.sentence_ids[position] for position in ranked.cut_sentences]
    scores = by_id(case.sentence_ids, ranked.scores)
    return {
        "ranker_vote": Vote(
            vote=settings.most_votes,
            essential=essential,
            confidence=by_id(case.sentence_ids, _probabilities(ranked.scores)),
        ),
        "ranker_scores": scores,
        "decisions": decision(
            "rank_evidence",
            f"{len(essential)} of {plural(len(scores), 'sentence')} by {ranker_name(ranker)},"
            f" cut-off {cutoff_text(cutoff)}",
            {
                "vote": settings.most_votes,
                "essential": essential,
                "scores": scores,
                "cutoff": cutoff.model_dump(),
                "cutoff_of": "ranker" if settings.cutoff is None else "recipe",
                "ranker": ranker.identity,
                "cut_sentences": cut,
            },
            flags=raised(cut_sentences=ranked.cut_sentences, cut_question=ranked.query_cut),
        ),
    }


def _probabilities(scores: Scores) -> Scores:
    """The logistic function, without overflow."""
    halves: Scores = 0.5 * (1.0 + np.tanh(0.5 * scores))
    return halves


RANK_EVIDENCE = NodeSpec(
    run=rank_evidence,
    role="ranker_vote",
    sections=(EvidenceSettings,),
    tools=(RANKER,),
    results={"ranker_scores": whole, "ranker_vote": whole},
    facts={
        "vote": Fact(
            rows=lambda vote, facts: [
                (f"vote {vote}", f"essential {in_brackets(facts['essential'])}, by {facts['ranker']}")
            ]
        ),
        "scores": scores_by_id("scores"),
        "cut_sentences": id_list("read in part"),
        **plain("essential", "cutoff", "cutoff_of", "ranker"),
    },
    flags={**CUT_SENTENCES, **CUT_QUESTION},
    kind="RERANKER",
    is_off=lambda recipe: not (recipe.labels_evidence and recipe.section(EvidenceSettings).asks_ranker),
)
