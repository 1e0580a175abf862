"""Triage of patients' messages: a question's intent, its risk, and whether the note can answer it."""

from __future__ import annotations

from typing import Literal

from langgraph.graph import END, START
from langgraph.runtime import Runtime

from graph.system import Builder, System
from nodes.core.context import Context
from nodes.core.recipe import Recipe
from nodes.core.records import IntentChoice
from nodes.core.state import CaseInput, CaseState
from nodes.question.adopt_patient_question import ADOPT_PATIENT_QUESTION
from nodes.question.classify_intent import CLASSIFY_INTENT, IntentSettings
from nodes.question.judge_answerability import JUDGE_ANSWERABILITY, AnswerabilitySettings, Answerable


class TriageRecipe(Recipe):
    """Two questions on each case.

    Attributes:
        intent: What kind of answer a question asks for.
        answerability: Whether the note can answer it.
    """

    system: Literal["triage"] = "triage"
    intent: IntentSettings = IntentSettings()
    answerability: AnswerabilitySettings = AnswerabilitySettings()

    @property
    def answers(self) -> bool:
        return False


class TriageState(CaseState, total=False):
    """Assessment of a question before it is answered."""

    patient_question: str
    intent: IntentChoice
    answerable: Answerable
    answering_sentences: list[str]
    """Ids of the note, in note order."""


JUDGING = ["classify_intent", "judge_answerability"]


async def begin(state: CaseInput, runtime: Runtime[Context[TriageRecipe]]) -> list[str]:
    """A case without a clinician question is judged by the patient's own."""
    asked = runtime.context.cases[state["case_id"]].question.strip()
    return JUDGING if asked else ["adopt_patient_question"]


def wire(builder: Builder) -> None:
    """Both nodes ask at the same time."""
    builder.add_conditional_edges(START, begin, ["adopt_patient_question", *JUDGING])
    for node in JUDGING:
        builder.add_edge("adopt_patient_question", node)
        builder.add_edge(node, END)


SYSTEM = System(
    summary="a question's intent, its risk, and whether the note can answer it",
    recipe=TriageRecipe,
    state=TriageState,
    nodes=(ADOPT_PATIENT_QUESTION, CLASSIFY_INTENT, JUDGE_ANSWERABILITY),
    wire=wire,
)
