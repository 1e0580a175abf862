"""Which cases show the model how to label and how to answer (TAMU 2026, sections 4.1.3 and 4.2.2)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.records import Case
from nodes.answer.answer_rules import AnswerSettings
from nodes.core.context import Context
from nodes.core.facts import CHOSEN_DEMONSTRATIONS, PLAIN
from nodes.core.node import NodeSpec
from nodes.core.recipe import Recipe
from nodes.core.records import Decision, IntentChoice, Shown, decision, shown
from nodes.evidence.settings import EvidenceSettings
from nodes.retrieval.demonstration_search import POOL, Found
from retrieval.demonstrations import DemonstrationPool, answer_text, evidence_text


class RetrieveEvidenceDemonstrationsInput(TypedDict):
    """What the node reads."""

    case_id: str
    patient_question: NotRequired[str]
    intent: NotRequired[IntentChoice]


class RetrieveEvidenceDemonstrationsUpdate(TypedDict):
    """What the node owns. Demonstrations are listed nearest first."""

    evidence_demonstrations: list[Shown]
    decisions: list[Decision]


def compared_text(case: Case, question: str) -> str:
    """What a case's evidence demonstrations are looked up by, with the question that is asked."""
    return evidence_text(replace(case, question=question))


async def choose_by_similarity(
    pool: DemonstrationPool, case: Case, question: str, recipe: Recipe, primary: str | None = None
) -> Found:
    """The K nearest cases, those of a primary intent first; never the case itself nor one held out."""
    wanted = recipe.section(EvidenceSettings).demonstrations
    excluded = pool.twins(case) | set(recipe.held_out)
    text = compared_text(case, question)
    chosen = []
    if primary is not None:
        same = await pool.nearest("evidence", text, wanted, intent=primary, excluded=excluded)
        chosen = [shown(neighbour, "primary") for neighbour in same]
    if len(chosen) < wanted:
        taken = excluded | {one["case_id"] for one in chosen}
        rest = await pool.nearest("evidence", text, wanted - len(chosen), excluded=taken)
        chosen += [shown(neighbour, "similarity" if primary is None else "fill") for neighbour in rest]
    return Found(chosen, excluded)


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
    chosen, excluded = await choose_by_similarity(pool, case, question, context.settings, primary)
    among = f"of intent {primary} first" if primary else "by similarity of question and narrative"
    return {
        "evidence_demonstrations": chosen,
        "decisions": decision(
            "retrieve_evidence_demonstrations",
            f"the {len(chosen)} nearest of {len(pool)} annotated cases {among}",
            {"chosen": chosen, "excluded": sorted(excluded)},
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
