"""One prompt that labels, answers and cites at once: the baseline that every other graph has to beat."""

from __future__ import annotations

import operator
from typing import Annotated, Literal

from langgraph.graph import END, START
from langgraph.runtime import Runtime

from graph.answer_verification import AnswerVerifier, VerifiedState, after_answer, verified
from graph.note_resources import Pool, PoolRecipe
from graph.system import Builder, System
from nodes.answer.answer_directly import ANSWER_DIRECTLY, DirectSettings
from nodes.core.context import Context
from nodes.core.records import AnswerEvidence
from nodes.core.state import CaseInput
from nodes.core.written_text import Attempt
from nodes.question.adopt_patient_question import ADOPT_PATIENT_QUESTION
from nodes.question.judge_answerability import JUDGE_ANSWERABILITY, StatedSettings, judges_answerability
from nodes.verification.decline_answer import DECLINE_ANSWER
from nodes.verification.verify_answer import VERIFY_ANSWER, VerificationSettings


class DirectRecipe(PoolRecipe):
    """Recipe of a single prompt, zero-shot by default.

    Attributes:
        answer: Demonstrations and rules of the answer.
        answerability: Whether a case that its note does not answer ends without an answer.
        verification: Whether each sentence of the answer is verified against the note.
    """

    system: Literal["direct"] = "direct"
    answer: DirectSettings = DirectSettings()
    answerability: StatedSettings = StatedSettings()
    verification: VerificationSettings = VerificationSettings()

    @property
    def shows_demonstrations(self) -> bool:
        return self.answer.demonstrations > 0


class DirectState(VerifiedState, total=False):
    """Results of the single reply."""

    patient_question: str
    draft_answer: str
    """The reply as it was written."""
    rejected_answers: Annotated[list[Attempt], operator.add]
    evidence: dict[AnswerEvidence, list[str]]


Answering = Literal["judge_answerability", "answer_directly"]


def answering(settings: DirectRecipe) -> Answering:
    """Whether the note has an answer comes first, by recipe."""
    return "judge_answerability" if judges_answerability(settings) else "answer_directly"


async def begin(
    state: CaseInput, runtime: Runtime[Context[DirectRecipe]]
) -> Literal["adopt_patient_question", Answering]:
    """A case without a clinician question is answered on the patient's own."""
    asked = runtime.context.cases[state["case_id"]].question.strip()
    return answering(runtime.context.settings) if asked else "adopt_patient_question"


async def after_adoption(state: DirectState, runtime: Runtime[Context[DirectRecipe]]) -> Answering:
    """As with a clinician question."""
    return answering(runtime.context.settings)


async def after_judgement(state: DirectState) -> Literal["decline_answer", "answer_directly"]:
    """A note that does not answer the question ends the case."""
    return "decline_answer" if state["answerable"] == "no" else "answer_directly"


async def after_verification(state: DirectState) -> Literal["answer_directly", "decline_answer", "__end__"]:
    """Write again what was sent back."""
    status = verified(state)
    if status == "sent_back":
        return "answer_directly"
    return "decline_answer" if status == "not_stated" else "__end__"


def wire(builder: Builder) -> None:
    """Add the edges."""
    builder.add_conditional_edges(START, begin)
    builder.add_conditional_edges("adopt_patient_question", after_adoption)
    builder.add_conditional_edges("judge_answerability", after_judgement)
    builder.add_conditional_edges("answer_directly", after_answer)
    builder.add_conditional_edges("verify_answer", after_verification)
    builder.add_edge("decline_answer", END)


SYSTEM = System(
    summary="labels, answer and citations by one prompt: the baseline to beat",
    recipe=DirectRecipe,
    state=DirectState,
    nodes=(ADOPT_PATIENT_QUESTION, JUDGE_ANSWERABILITY, ANSWER_DIRECTLY, VERIFY_ANSWER, DECLINE_ANSWER),
    wire=wire,
    resources=(Pool(), AnswerVerifier()),
    score="archehr",
)
