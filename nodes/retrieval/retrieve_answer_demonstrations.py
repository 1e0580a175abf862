"""Which answered cases show the model how to answer this kind of question (TAMU 2026, section 4.2.2)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from nodes.answer.answer_rules import AnswerSettings
from nodes.core.context import Context
from nodes.core.facts import CHOSEN_DEMONSTRATIONS, PLAIN
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, IntentChoice, Shown, decision, shown
from nodes.retrieval.demonstration_search import POOL
from retrieval.pools.compared import answer_text
from retrieval.pools.pool import DemonstrationPool


class RetrieveAnswerDemonstrationsInput(TypedDict):
    """What the node reads."""

    case_id: str
    patient_question: NotRequired[str]
    intent: IntentChoice


class RetrieveAnswerDemonstrationsUpdate(TypedDict):
    """What the node owns. Demonstrations are listed in the order they were chosen."""

    answer_demonstrations: list[Shown]
    decisions: list[Decision]


async def choose_by_intent(
    pool: DemonstrationPool,
    text: str,
    intent: IntentChoice,
    settings: AnswerSettings,
    excluded: Collection[str],
) -> list[Shown]:
    """Choose K demonstrations by the recipe's selection rule; a short list is filled by similarity."""
    chosen: list[Shown] = []
    wanted = settings.demonstrations
    primary, secondary = intent["primary"], intent["secondary"]

    def taken() -> set[str]:
        return {*excluded, *(one["case_id"] for one in chosen)}

    if settings.selection != "similarity" and primary is not None:
        first = await pool.nearest("answer", text, wanted, intent=primary, excluded=taken())
        chosen += [shown(neighbour, "primary") for neighbour in first]
        if len(chosen) < wanted and secondary is not None:
            # A union ranks both intents together, so it needs the K nearest of each.
            missing = wanted if settings.selection == "union" else wanted - len(chosen)
            second = await pool.nearest("answer", text, missing, intent=secondary, excluded=taken())
            chosen += [shown(neighbour, "secondary") for neighbour in second]
            if settings.selection == "union":
                chosen = sorted(chosen, key=lambda one: (one["distance"], one["case_id"]))[:wanted]
    if len(chosen) < wanted:
        by_intent = settings.selection != "similarity" and primary is not None
        rest = await pool.nearest("answer", text, wanted - len(chosen), excluded=taken())
        chosen += [shown(neighbour, "fill" if by_intent else "similarity") for neighbour in rest]
    return chosen


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
    excluded = pool.twins(case) | set(context.settings.held_out)
    case = replace(case, question=state.get("patient_question", case.question))
    text = answer_text(case, state["intent"]["primary"])
    chosen = await choose_by_intent(pool, text, state["intent"], settings, excluded)
    tiers = [one["tier"] for one in chosen]
    counts = ", ".join(f"{tiers.count(tier)} by {tier}" for tier in dict.fromkeys(tiers))
    return {
        "answer_demonstrations": chosen,
        "decisions": decision(
            "retrieve_answer_demonstrations",
            f"{len(chosen)} of {len(pool)} answered cases, {settings.selection}: {counts or 'none'}",
            {"selection": settings.selection, "chosen": chosen, "excluded": sorted(excluded)},
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
