"""Which answered cases show the model how to answer this kind of question (TAMU 2026, section 4.2.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from nodes.answer.answer_rules import AnswerSettings
from nodes.core.context import Context
from nodes.core.facts import CHOSEN_DEMONSTRATIONS, PLAIN
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, IntentChoice, Shown, decision
from nodes.retrieval.demonstration_search import POOL, choose
from retrieval.pools.compared import answer_text


class RetrieveAnswerDemonstrationsInput(TypedDict):
    case_id: str
    patient_question: NotRequired[str]
    intent: IntentChoice


class RetrieveAnswerDemonstrationsUpdate(TypedDict):
    """Demonstrations are listed in the order they were chosen."""

    answer_demonstrations: list[Shown]
    decisions: list[Decision]


async def retrieve_answer_demonstrations(
    state: RetrieveAnswerDemonstrationsInput, runtime: Runtime[Context]
) -> RetrieveAnswerDemonstrationsUpdate:
    """The K nearest answered cases of the question's intent, never the case itself nor one held out."""
    context = runtime.context
    settings = context.section(AnswerSettings)
    pool = context.find(POOL)
    if settings.demonstrations == 0 or pool is None:
        because = "the recipe wants no answer demonstrations"
        return {
            "answer_demonstrations": [],
            "decisions": decision("retrieve_answer_demonstrations", because, {"chosen": []}),
        }
    case = context.cases[state["case_id"]]
    primary, secondary = state["intent"]["primary"], state["intent"]["secondary"]
    asked = replace(case, question=state.get("patient_question", case.question))
    found = await choose(
        pool,
        case,
        context.settings,
        "answer",
        answer_text(asked, primary),
        settings.demonstrations,
        intents=() if settings.selection == "similarity" else (primary, secondary),
        union=settings.selection == "union",
    )
    tiers = [one["tier"] for one in found.shown]
    counts = ", ".join(f"{tiers.count(tier)} by {tier}" for tier in dict.fromkeys(tiers))
    return {
        "answer_demonstrations": found.shown,
        "decisions": decision(
            "retrieve_answer_demonstrations",
            f"{len(tiers)} of {len(pool)} answered cases, {settings.selection}: {counts or 'none'}",
            {"selection": settings.selection, **found.facts},
        ),
    }


RETRIEVE_ANSWER_DEMONSTRATIONS = NodeSpec(
    run=retrieve_answer_demonstrations,
    sections=(AnswerSettings,),
    tools=(POOL,),
    facts={"selection": PLAIN, **CHOSEN_DEMONSTRATIONS},
    kind="RETRIEVER",
    demonstrations=("the answer", "generate_answer"),
)
