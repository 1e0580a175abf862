"""One prompt that labels, answers and cites at once: the baseline that every other graph has to beat."""

from __future__ import annotations

from typing import Literal

from langgraph.graph import END, START
from langgraph.runtime import Runtime

from graph.note_resources import Pool, PoolRecipe
from graph.system import Builder, System
from nodes.answer.answer_directly import ANSWER_DIRECTLY, DirectSettings
from nodes.core.context import Context
from nodes.core.records import AlignedAnswer, AnswerEvidence, AnswerLine
from nodes.core.state import CaseInput, CaseState
from nodes.question.adopt_patient_question import ADOPT_PATIENT_QUESTION


class DirectRecipe(PoolRecipe):
    """A single prompt, zero-shot where a recipe says nothing else.

    Attributes:
        answer: Demonstrations and rules of the answer.
    """

    system: Literal["direct"] = "direct"
    answer: DirectSettings = DirectSettings()

    @property
    def shows_demonstrations(self) -> bool:
        return self.answer.demonstrations > 0


class DirectState(CaseState, total=False):
    """What the one reply comes to."""

    patient_question: str
    answer: str
    answer_sentences: list[AnswerLine]
    alignment: dict[str, list[str]]
    aligned_answer: AlignedAnswer
    evidence: dict[AnswerEvidence, list[str]]


async def begin(
    state: CaseInput, runtime: Runtime[Context[DirectRecipe]]
) -> Literal["adopt_patient_question", "answer_directly"]:
    """A case without a clinician question is answered on the patient's own."""
    asked = runtime.context.cases[state["case_id"]].question.strip()
    return "answer_directly" if asked else "adopt_patient_question"


def wire(builder: Builder) -> None:
    """Add the edges."""
    builder.add_conditional_edges(START, begin)
    builder.add_edge("adopt_patient_question", "answer_directly")
    builder.add_edge("answer_directly", END)


SYSTEM = System(
    summary="labels, answer and citations by one prompt: the baseline to beat",
    recipe=DirectRecipe,
    state=DirectState,
    nodes=(ADOPT_PATIENT_QUESTION, ANSWER_DIRECTLY),
    wire=wire,
    resources=(Pool(),),
    score="archehr",
)
