"""Types of questions, and what a recipe can set for exact answers (Verma et al. 2025, section 3.3)."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field

from cases.biomedical import QuestionType
from cases.records import Case
from nodes.core.failure import NodeFailure
from nodes.core.recipe import RecipeSection

QUESTION_TYPES: tuple[QuestionType, ...] = get_args(QuestionType)


def type_of(case: Case) -> QuestionType | None:
    """The type, None where the case gives none."""
    return case.biomedical.type if case.biomedical else None


def demand_type(case: Case) -> QuestionType:
    """The type of a question that is to be answered.

    Raises:
        NodeFailure: The case gives none, so the form of its answer is unknown.
    """
    found = type_of(case)
    if found is None:
        raise NodeFailure(
            "invalid_input", f"the question has no type; give it one of {', '.join(QUESTION_TYPES)}"
        )
    return found


class ExactSettings(RecipeSection):
    """Phase B: answers in the form that a question's type asks for (section 3.3).

    Attributes:
        style: 1 to 3, of queries and instructions.
        shots: Answered questions of the same type that the prompt shows; the paper's 1 or 10.
        votes: Samples; more than one are counted against each other.
        threshold: Share of the votes that an entry of a list needs.
        default_yes: Whether a reply that says neither yes nor no counts as yes, with a flag; otherwise that
            vote is missing.
        max_snippet_characters: Of the snippets of a question together, and of each shot's; snippets beyond
            are left out from the end, and said.
    """

    style: Literal[1, 2, 3] = 2
    shots: int = Field(1, ge=0, le=10)
    votes: int = Field(1, ge=1, le=25)
    threshold: float = Field(0.5, gt=0, le=1)
    temperature: float | None = Field(None, ge=0, le=2)
    max_tokens: int = Field(256, ge=16)
    default_yes: bool = False
    max_snippet_characters: int = Field(24_000, ge=500)

    @property
    def hints(self) -> bool:
        """Query template 2: ideal answers are given the exact one, and shots show whole lists."""
        return self.style != 1

    @property
    def instructions(self) -> Literal[1, 2]:
        return 2 if self.style == 3 else 1

    @property
    def sampled_at(self) -> float:
        """The temperature: 0 for one vote, 0.7 for several, where the recipe does not say."""
        if self.temperature is not None:
            return self.temperature
        return 0.0 if self.votes == 1 else 0.7
