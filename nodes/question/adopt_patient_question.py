"""A case without a clinician question is answered on the patient's own words."""

from __future__ import annotations

from typing import TypedDict

from langgraph.runtime import Runtime

from cases.records import Case
from nodes.core.context import Context
from nodes.core.facts import plain
from nodes.core.failure import NodeFailure
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, decision
from nodes.core.wording import one_line

_MAX_QUESTION = 600


class AdoptPatientQuestionInput(TypedDict):
    case_id: str


class AdoptPatientQuestionUpdate(TypedDict):
    patient_question: str
    decisions: list[Decision]


def patient_question(case: Case) -> tuple[str, str]:
    """The patient's question and where it was found: the focus phrases, else the narrative's questions.

    Raises:
        NodeFailure: The case holds nothing that could be asked.
    """
    if case.phrases:
        return " ".join(one_line(phrase.text) for phrase in case.phrases), "focus phrases"
    text = one_line(case.narrative)
    asked = [part.strip() + "?" for part in text.split("?")[:-1] if part.strip()]
    sentences = [part.rsplit(". ", 1)[-1].rsplit("! ", 1)[-1] for part in asked]
    if sentences:
        return " ".join(sentences)[-_MAX_QUESTION:], "questions in the narrative"
    if text:
        return text[-_MAX_QUESTION:], "end of the narrative"
    raise NodeFailure("invalid_input", "the case has neither a clinician question nor a narrative")


async def adopt_patient_question(
    state: AdoptPatientQuestionInput, runtime: Runtime[Context]
) -> AdoptPatientQuestionUpdate:
    """Use the patient's own words instead of the missing clinician question."""
    question, found_in = patient_question(runtime.context.cases[state["case_id"]])
    return {
        "patient_question": question,
        "decisions": decision(
            "adopt_patient_question",
            f"the case has no clinician question, so the {found_in} are asked instead",
            {"found_in": found_in, "characters": len(question)},
            flags=["no_clinician_question"],
        ),
    }


NO_QUESTION = {
    "no_clinician_question": "the case has no clinician question; another one was asked instead",
}
"""The flag of a node that finds a question for a case that has none."""

ADOPT_PATIENT_QUESTION = NodeSpec(
    run=adopt_patient_question,
    facts=plain("found_in", "characters"),
    flags=NO_QUESTION,
)
