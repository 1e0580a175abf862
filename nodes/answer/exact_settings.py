"""What a recipe can set for exact answers, phase B of BioASQ (Verma et al. 2025, section 3.3)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from nodes.core.recipe import RecipeSection


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
        """Which of the two sets of instructions: format template 1, or 2."""
        return 2 if self.style == 3 else 1

    @property
    def sampled_at(self) -> float:
        """The temperature: 0 for one vote, 0.7 for several, where the recipe does not say."""
        if self.temperature is not None:
            return self.temperature
        return 0.0 if self.votes == 1 else 0.7
