"""Recipe settings for answers from dated literature (Vladika and Matthes 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from nodes.core.recipe import RecipeSection
from nodes.reading.study_strength import Strength
from ranking.rankers.entailment import InputForm

LLM = "llm"
"""The reader that is a language model; every other name is the folder of a model of entailment."""

DocMode = Literal["full", "top3", "top_j"]
TopjOrder = Literal["paper", "released"]
Year = Annotated[int, Field(ge=1500, le=3000)]


def located_reader(name: str) -> str:
    """The language model unchanged, or a folder's absolute path."""
    return name if name == LLM else str(Path(name).expanduser().resolve())


class LiteratureSettings(RecipeSection):
    """Which documents are found, and which of them may be evidence.

    A document without a year, or without a count of citations, has 0 of it, and so does not pass a filter.

    Attributes:
        k: Documents that are read, before filters take some away.
        refill: Fill up to `k` from deeper ranks after filters; the paper does not.
        depth: How deep a refill looks.
        minimum_year: Earliest year of publication, that year included.
        minimum_citations: Fewest citations, that number included.
        as_of: Last year of publication: `case` is each case's own year, if it has one, a number also limits
            all cases, and null removes the limit.
        study_types: Names as the corpus has them, of which a document must have one; none lets all in.
        minimum_strength: Weakest kind of study; those of unknown kind do not pass.
    """

    k: int = Field(10, ge=1, le=1000)
    refill: bool = False
    depth: int = Field(100, ge=1, le=10_000)
    minimum_year: Year | None = None
    minimum_citations: int | None = Field(None, ge=0)
    as_of: Literal["case"] | Year | None = "case"
    study_types: tuple[str, ...] = ()
    minimum_strength: Strength | None = None

    @model_validator(mode="after")
    def _a_refill_looks_deeper(self) -> LiteratureSettings:
        if self.refill and self.depth < self.k:
            raise ValueError(f"depth {self.depth} is below k {self.k}")
        return self

    @property
    def searched(self) -> int:
        return self.depth if self.refill else self.k


class ReadingSettings(RecipeSection):
    """Passages to read, and their reader.

    Attributes:
        doc_mode: `full` reads each abstract as one passage; `top3` its three sentences that are most similar
            to the question, in their order; `top_j` the most similar sentences of all documents together,
            each by itself.
        j: Sentences of `top_j`.
        topj_order: `paper` reads the `j` most similar sentences, most similar first; `released` puts the 20
            most similar in the order of the documents and reads the first `j`.
        encoder: Folder of the sentence encoder that compares sentences; None is the packaged MiniLM, the
            paper uses SPICED.
        lowercase: Put sentences into lower case before they are compared and read, as the released code does.
        reader: `llm` asks the `label` model; anything else is the folder of a sequence classifier that was
            trained on natural language inference.
        input: How a classifier is given question and passage: `clean` as premise and hypothesis, `released`
            as one text with the question first.
        confidence: Request log-probabilities from the `label` model, and record the confidence of readings.
    """

    options: ClassVar[Mapping[str, str]] = {"reader": "reader"}

    doc_mode: DocMode = "full"
    j: int = Field(20, ge=1, le=1000)
    topj_order: TopjOrder = "paper"
    encoder: str | None = Field(None, min_length=1)
    lowercase: bool = False
    reader: str = Field(LLM, min_length=1)
    input: InputForm = "clean"
    confidence: bool = False
    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(32, ge=8)

    @property
    def asks_model(self) -> bool:
        return self.reader == LLM

    @property
    def compares(self) -> bool:
        return self.doc_mode != "full"

    @property
    def released(self) -> tuple[str, ...]:
        """Settings that follow the released code instead of the paper, so that numbers can be traced."""
        named = (
            (self.doc_mode == "top3", "doc_mode=top3"),
            (self.doc_mode == "top_j" and self.topj_order == "released", "topj_order=released"),
            (self.lowercase, "lowercase=true"),
            (not self.asks_model and self.input == "released", "input=released"),
        )
        return tuple(name for follows, name in named if follows)


class VerdictSettings(RecipeSection):
    """How readings become an answer.

    Attributes:
        classes: 3 answers yes, no or unknown; 2 answers yes or no, and no without evidence.
        weighting: `count` gives every reading one vote; `probability` weights it by its probability if known,
            else one vote.
        explain: Ask the `answer` model for an explanation that cites the passages.
        max_words: Of the explanation, as the prompt asks for it.
    """

    classes: Literal[2, 3] = 3
    weighting: Literal["count", "probability"] = "count"
    explain: bool = False
    max_words: int = Field(120, ge=10)
    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(320, ge=16)
