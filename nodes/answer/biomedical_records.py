"""Small records of BioASQ's two phases that travel in the state: builtins only."""

from __future__ import annotations

from typing import Literal, TypedDict

RankingStage = Literal["retrieved", "cross_encoder", "llm", "ensemble"]


class RankedDocument(TypedDict):
    """A document's place in a ranking; `score` is None where the ranking gives places alone."""

    id: str
    rank: int
    score: float | None


class ChosenSnippet(TypedDict):
    """A piece of a document that answers are built on.

    `begin` and `end` count characters of the section; None where they are unknown.
    """

    document: str
    section: str
    begin: int | None
    end: int | None
    text: str


class ExactVote(TypedDict):
    """One sample of an exact answer.

    `answer` is yes or no, or entries that are each a list of synonyms; None where the reply gives none.
    """

    sample: int
    answer: str | list[list[str]] | None
