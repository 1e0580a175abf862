"""Which annotated cases show the model how to label evidence (TAMU 2026, section 4.1.3)."""

from __future__ import annotations

from dataclasses import replace
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.records import Case
from nodes.core.context import Context
from nodes.core.facts import CHOSEN_DEMONSTRATIONS
from nodes.core.node import NodeSpec
from nodes.core.recipe import Recipe
from nodes.core.records import Decision, IntentChoice, Shown, decision
from nodes.evidence.settings import EvidenceSettings
from nodes.retrieval.demonstration_search import POOL, Found, choose
from retrieval.pools.compared import evidence_text
from retrieval.pools.pool import DemonstrationPool


class RetrieveEvidenceDemonstrationsInput(TypedDict):
    case_id: str
    patient_question: NotRequired[str]
    intent: NotRequired[IntentChoice]


class RetrieveEvidenceDemonstrationsUpdate(TypedDict):
    """Demonstrations are listed nearest first."""

    evidence_demonstrations: list[Shown]
    decisions: list[Decision]


def compared_text(case: Case, question: str) -> str:
    """Query for a case's evidence demonstrations, with the question that is asked."""
    return evidence_text(replace(case, question=question))


async def choose_by_similarity(
    pool: DemonstrationPool, case: Case, question: str, recipe: Recipe, primary: str | None = None
) -> Found:
    """The K nearest cases, those of a primary intent first."""
    settings = recipe.section(EvidenceSettings)
    return await choose(
        pool,
        case,
        recipe,
        "evidence",
        compared_text(case, question),
        settings.demonstrations,
        intents=(primary,),
        among=settings.demonstrations_from,
    )


async def retrieve_evidence_demonstrations(
    state: RetrieveEvidenceDemonstrationsInput, runtime: Runtime[Context]
) -> RetrieveEvidenceDemonstrationsUpdate:
    """The K nearest cases, never the case itself nor one that is held out."""
    context = runtime.context
    settings = context.section(EvidenceSettings)
    pool = context.find(POOL)
    if settings.demonstrations == 0 or pool is None:
        because = "the recipe wants no evidence demonstrations"
        return {
            "evidence_demonstrations": [],
            "decisions": decision("retrieve_evidence_demonstrations", because, {"chosen": []}),
        }
    case = context.cases[state["case_id"]]
    question = state.get("patient_question", case.question)
    primary = state["intent"]["primary"] if settings.intent_aware and "intent" in state else None
    found = await choose_by_similarity(pool, case, question, context.settings, primary)
    among = f"of intent {primary} first" if primary else "by similarity of question and narrative"
    listed = len(settings.demonstrations_from) or len(pool)
    return {
        "evidence_demonstrations": found.shown,
        "decisions": decision(
            "retrieve_evidence_demonstrations",
            f"the {len(found.shown)} nearest of {listed} annotated cases {among}",
            found.facts,
        ),
    }


RETRIEVE_EVIDENCE_DEMONSTRATIONS = NodeSpec(
    run=retrieve_evidence_demonstrations,
    sections=(EvidenceSettings,),
    tools=(POOL,),
    facts=CHOSEN_DEMONSTRATIONS,
    kind="RETRIEVER",
    demonstrations=("labels", "label_evidence"),
)
