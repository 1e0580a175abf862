"""Weak labels from clinicians' answers (TAMU-NLP at ArchEHR-QA 2026, section 3.1)."""

from __future__ import annotations

import operator
from typing import Annotated, Literal

from langgraph.graph import END, START

from cases.records import LabelSource
from graph.system import Builder, System
from nodes.core.recipe import Recipe
from nodes.core.records import (
    AnswerEvidence,
    Vote,
)
from nodes.core.state import CaseState
from nodes.evidence.aggregate_votes import AGGREGATE_VOTES
from nodes.evidence.label_from_answer import LABEL_FROM_ANSWER
from nodes.evidence.settings import FixedVoteSettings


class WeakLabelsRecipe(Recipe):
    """Recipe with the packaged one's values as defaults.

    Attributes:
        evidence: Votes on what supports the clinician's answer.
    """

    system: Literal["weak_labels"] = "weak_labels"
    evidence: FixedVoteSettings = FixedVoteSettings()

    @property
    def answers(self) -> bool:
        return False


class WeakLabelsState(CaseState, total=False):
    """Votes on what supports the clinician's answer."""

    votes: Annotated[list[Vote], operator.add]
    """Before reflection; further votes are added."""
    asked_votes: int
    """Votes requested from the model, including failed ones."""
    vote_counts: dict[str, int]
    usable_votes: int
    """That of a ranker counts with its weight, here and in `vote_counts`."""
    label_confidence: dict[str, float | None]
    """Mean P(essential) by sentence id."""
    case_confidence: float
    """Confidence by a calibrated rule, which this system's recipes lack."""
    evidence: dict[AnswerEvidence, list[str]]
    """Sentence ids of each evidence setting."""
    label_source: LabelSource
    """Weak where the labels come from the clinician's answer itself."""


async def after_labelling(state: WeakLabelsState) -> Literal["aggregate_votes", "__end__"]:
    """Votes are counted; citations and labels of people are kept unchanged."""
    return "aggregate_votes" if state.get("votes") else "__end__"


def wire(builder: Builder) -> None:
    """Add the edges."""
    builder.add_edge(START, "label_from_answer")
    builder.add_conditional_edges("label_from_answer", after_labelling)
    builder.add_edge("aggregate_votes", END)


SYSTEM = System(
    summary="labels for unlabelled cases from their clinicians' answers (TAMU-NLP, section 3.1)",
    recipe=WeakLabelsRecipe,
    state=WeakLabelsState,
    nodes=(LABEL_FROM_ANSWER, AGGREGATE_VOTES),
    wire=wire,
    score="archehr",
)
