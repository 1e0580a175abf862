"""What a recipe can set for BioASQ's phases (Verma et al. 2025, "Beyond Retrieval")."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Phase = Literal["a", "b", "both"]
RankToScore = Literal["linear", "reciprocal", "rrf", "minmax"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DocumentSettings(_Section):
    """Phase A: documents and snippets (section 3.1 and 3.2).

    Attributes:
        phase: `a` finds documents and snippets, `b` answers from the snippets that a question comes with,
            `both` answers from what was found.
        retriever: `dense` searches an index of vectors, `words` a corpus by BM25, `hybrid` fuses both.
        depth: Documents that each retriever finds; the paper's 1,000.
        rrf_k: Of reciprocal-rank fusion.
        reformulations: Further queries that the `label` model writes; each is searched for as well.
        reranker: Ranker that puts what was found in a better order: the folder of a trained ranker, or
            `classifier:FOLDER` of a cross-encoder with one logit; None leaves the order.
        reranked: How many of the best the cross-encoder hands on; the paper's 30.
        llm_rerank: Whether the `label` model reorders those.
        window: Documents of one prompt; more than that are reordered in windows that slide from the end.
        step: How far a window slides.
        kept: Documents of the answer; BioASQ takes ten.
        ensemble: How the order of the cross-encoder and that of the model become one; `llm` takes the
            model's alone.
        nominated: Documents of the cross-encoder that `nomination` puts first.
        weights: Of cross-encoder and model.
        cross_encoder_score: How a place, or a logit, becomes a score in the weighted ensemble.
        llm_score: The same for the model's places.
        snippets: Most snippets of the answer.
        passage_words: Words of an abstract that the model is shown.
    """

    phase: Phase = "both"
    retriever: Literal["dense", "words", "hybrid"] = "hybrid"
    depth: int = Field(1000, ge=1, le=10_000)
    rrf_k: int = Field(60, ge=1)
    reformulations: int = Field(0, ge=0, le=5)
    reranker: str | None = None
    reranked: int = Field(30, ge=1, le=1000)
    llm_rerank: bool = False
    window: int = Field(30, ge=2, le=100)
    step: int = Field(10, ge=1, le=100)
    kept: int = Field(10, ge=1, le=100)
    ensemble: Literal["weighted", "nomination", "llm"] = "weighted"
    nominated: int = Field(6, ge=0, le=100)
    weights: tuple[float, float] = (1.0, 7.0)
    cross_encoder_score: RankToScore = "minmax"
    llm_score: Literal["linear", "reciprocal", "rrf"] = "linear"
    snippets: int = Field(10, ge=1, le=100)
    passage_words: int = Field(250, ge=10)
    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(256, ge=16)

    @model_validator(mode="after")
    def _windows_overlap(self) -> DocumentSettings:
        if self.step > self.window:
            raise ValueError(f"step {self.step} is above window {self.window}: documents would be left out")
        if self.llm_rerank and self.reranked > self.window and self.kept > self.window - self.step:
            raise ValueError(
                f"kept {self.kept} is above window {self.window} less step {self.step}: what one window puts"
                " first would not all be seen by the next"
            )
        if any(weight < 0 for weight in self.weights) or not any(self.weights):
            raise ValueError("weights must not be below 0, and one of them must be above")
        return self

    @property
    def finds(self) -> bool:
        """Whether documents are searched for."""
        return self.phase != "b"

    @property
    def answers(self) -> bool:
        """Whether questions are answered."""
        return self.phase != "a"


class ExactSettings(_Section):
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


class IdealSettings(_Section):
    """The answer in words.

    Attributes:
        max_words: BioASQ's 200.
        corrections: How often an answer that is too long is sent back before it is cut and flagged.
    """

    max_words: int = Field(200, ge=10)
    corrections: int = Field(1, ge=0, le=5)
    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(400, ge=16)
