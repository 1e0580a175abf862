"""What a recipe can set for retrieval from the note and for citations (heiDS at ArchEHR-QA 2025)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ranking.attribution import Weights
from ranking.cutoffs import Cutoff, Surprise
from ranking.load import gives_logits
from ranking.similarity import SIMILARITY


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RetrievalSettings(_Section):
    """Which sentences of the note are found for a query (heiDS, sections 2.2 and 2.3).

    Attributes:
        query: The patient's message, the clinician's question, or both; what a case lacks is left out, and
            where it lacks all that is asked for, the other stands in.
        retriever: What scores the sentences: `similarity`, `similarity:FOLDER` of a sentence encoder,
            `bm25`, `logistic`, or the folder of a trained ranker.
        clean: `heids` takes case, punctuation and all but ASCII from the texts that are compared. The model
            reads the sentences as they are.
        expand_acronyms: Write out medical acronyms in the texts that are compared.
        acronyms: File of acronyms, in place of the packaged table.
        candidates: So many of the best go on to the cut-off; it bounds what a huge note costs.
        cutoff: How many of the ranking are kept; one at least.
        reranker: A second ranker, which puts the best in an order of its own; None keeps that of the
            retriever.
        rerank_candidates: So many of the best go on to the reranker, and to the cut-off then.
    """

    query: Literal["patient", "clinician", "both"] = "both"
    retriever: str = SIMILARITY
    clean: Literal["none", "heids"] = "none"
    expand_acronyms: bool = False
    acronyms: str | None = None
    candidates: int = Field(1000, ge=1)
    cutoff: Cutoff = Surprise()
    reranker: str | None = None
    rerank_candidates: int = Field(50, ge=1)

    @model_validator(mode="after")
    def _a_table_is_read(self) -> RetrievalSettings:
        if self.acronyms is not None and not self.expand_acronyms:
            raise ValueError("acronyms names a table, but expand_acronyms is false")
        return self

    @model_validator(mode="after")
    def _probabilities_where_a_rule_needs_them(self) -> RetrievalSettings:
        last = self.reranker or self.retriever
        if self.cutoff.rule == "threshold" and not gives_logits(last):
            raise ValueError(
                f"cutoff.rule is 'threshold', but scores of {last.partition(':')[0]} are no probabilities;"
                " use 'surprise', 'autocut', 'elbow' or 'top_k'"
            )
        return self

    @property
    def ranked(self) -> int:
        """So many of the best have a place in the final ranking."""
        return self.candidates if self.reranker is None else min(self.candidates, self.rerank_candidates)


class CitationSettings(_Section):
    """How sentences of an answer come to their citations (heiDS, section 2.5).

    Attributes:
        method: `post_retrieval` lets the model cite what it was shown; `post_generation` lets it write
            without citations and attributes its sentences afterwards.
        count_citations: Whether citations count as words of the answer's limit; the scorer of 2025 counts
            the words alone.
        threshold: A sentence is cited from this similarity on, in `post_generation`.
        weights: Of the three parts of that similarity.
    """

    method: Literal["post_retrieval", "post_generation"] = "post_retrieval"
    count_citations: bool = False
    threshold: float = Field(0.3, ge=0, le=1)
    weights: Weights = Weights()
