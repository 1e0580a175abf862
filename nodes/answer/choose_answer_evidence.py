"""Which evidence the answer is built on: the threshold's, high recall or low recall (section 5.4.2)."""

from __future__ import annotations

from typing import TypedDict

from langgraph.runtime import Runtime

from cases.texts import plural
from nodes.answer.answer_rules import AnswerSettings
from nodes.core.context import Context
from nodes.core.facts import plain, whole
from nodes.core.node import NodeSpec
from nodes.core.records import AnswerEvidence, Decision, decision


class ChooseAnswerEvidenceInput(TypedDict):
    evidence: dict[AnswerEvidence, list[str]]


class ChooseAnswerEvidenceUpdate(TypedDict):
    answer_evidence: list[str]
    decisions: list[Decision]


async def choose_answer_evidence(
    state: ChooseAnswerEvidenceInput, runtime: Runtime[Context]
) -> ChooseAnswerEvidenceUpdate:
    """Take the set that the recipe names."""
    setting = runtime.context.section(AnswerSettings).evidence
    chosen = state["evidence"][setting]
    sizes = ", ".join(f"{name} {len(ids)}" for name, ids in state["evidence"].items())
    return {
        "answer_evidence": chosen,
        "decisions": decision(
            "choose_answer_evidence",
            f"the recipe builds answers on {setting} evidence: {plural(len(chosen), 'sentence')} ({sizes})",
            {"setting": setting, "chosen": chosen},
        ),
    }


CHOOSE_ANSWER_EVIDENCE = NodeSpec(
    run=choose_answer_evidence,
    sections=(AnswerSettings,),
    results={"answer_evidence": whole},
    facts=plain("setting", "chosen"),
)
