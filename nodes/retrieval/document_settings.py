"""Recipe settings for documents and snippets, phase A of BioASQ (Verma et al. 2025)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from nodes.core.recipe import RecipeSection
from ranking.rankers.ensembles import RankToScore
from ranking.rankers.sequence_classifier import OF_A_FOLDER as CROSS_ENCODER

Phase = Literal["a", "b", "both"]


class DocumentSettings(RecipeSection):
    """Phase A: documents and snippets (section 3.1 and 3.2).

    Attributes:
        phase: `a` finds documents and snippets, `b` answers from the snippets that a question comes with,
            `both` answers from retrieved snippets.
        retriever: `dense` searches an index of vectors, `words` a corpus by BM25, `hybrid` fuses both.
        depth: Documents that each retriever finds; the paper's 1,000.
        rrf_k: Of reciprocal-rank fusion.
        reformulations: Further queries that the `label` model writes; each is searched for as well.
        reranker: Ranker that reorders the results: the folder of a trained ranker, or
            `classifier:FOLDER` of a cross-encoder with one logit; None leaves the order.
        reranked: How many of the best the cross-encoder hands on; the paper's 30.
        llm_rerank: Whether the `label` model reorders those.
        window: Documents of one prompt; more than that are reordered in windows that slide from the end.
        step: How far a window slides.
        kept: Documents of the answer; BioASQ takes ten.
        ensemble: How the orders of the cross-encoder and the model are combined; `llm` uses only the model's.
        nominated: Documents of the cross-encoder that `nomination` puts first.
        weights: Of cross-encoder and model.
        cross_encoder_score: How a place, or a logit, becomes a score in the weighted ensemble.
        llm_score: The same for the model's places.
        snippets: Most snippets of the answer.
        passage_words: Words of an abstract that the model is shown.
    """

    options: ClassVar[Mapping[str, str]] = {"phase": "phase", "reranker": "reranker"}

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
                f"kept {self.kept} is above window {self.window} less step {self.step}: the documents that"
                " one window puts first would not all be seen by the next"
            )
        if any(weight < 0 for weight in self.weights) or not any(self.weights):
            raise ValueError("weights must not be below 0, and one of them must be above")
        return self

    @property
    def finds(self) -> bool:
        return self.phase != "b"

    @property
    def answers(self) -> bool:
        return self.phase != "a"

    @property
    def reformulates(self) -> bool:
        return self.finds and self.reformulations > 0

    @property
    def compares_vectors(self) -> bool:
        return self.finds and self.retriever != "words"

    @property
    def scores_documents(self) -> bool:
        return self.finds and self.reranker is not None

    @property
    def first_ranker(self) -> str:
        """Source of the ranking that the model reorders, in words."""
        if self.reranker is None:
            return f"the {self.retriever} search"
        return "the cross-encoder" if self.reranker.startswith(CROSS_ENCODER) else "the reranker"

    @property
    def reranks_by_model(self) -> bool:
        return self.finds and self.llm_rerank

    def needs(self, option: str) -> str | None:
        return "--phase a, or both" if option == "reranker" and not self.finds else None
