"""Rerankers and the retriever together: weights chosen on one part of the questions, tested on the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evals.search.questions import JudgedQuestion, Part, questions_of
from evals.search.rankings import Rankings
from evals.search.retrievers import Scored
from evals.statistics.case_totals import Floats
from ranking.rankers.ensembles import (
    JudgedRankings,
    Ranking,
    RankToScore,
    Weights,
    tune_weights,
    weighted_scores,
)
from storage.errors import InputError

RERANKER_SCORE: RankToScore = "minmax"
RETRIEVER_SCORE: RankToScore = "linear"


@dataclass(frozen=True, slots=True)
class Split:
    """Which questions weights are chosen on.

    Attributes:
        part: Its name.
        tuning: Whether each question is in it, shape (questions,).
    """

    part: Part
    tuning: tuple[bool, ...]

    @classmethod
    def of(cls, questions: Sequence[JudgedQuestion], part: Part) -> Split:
        """Cut questions.

        Raises:
            InputError: All questions are in the part, or none is.
        """
        within = {question.id for question in questions_of(questions, part)}
        tuning = tuple(question.id in within for question in questions)
        if all(tuning):
            raise InputError("--tune", f"part {part} has all questions, so that none is left to test")
        return cls(part, tuning)

    def rows(self, matrix: Floats, *, tuning: bool) -> Floats:
        """Rows of the questions in the part, or of the others."""
        within: Floats = matrix[np.array(self.tuning) == tuning]
        return within


@dataclass(frozen=True, slots=True)
class Ensemble:
    """A reranker and the retriever by weighted scores.

    Attributes:
        weights: Of the reranker and of the retriever, chosen on the tuning part.
        found: A ranking a question, tuning and testing.
    """

    reranker: str
    weights: Weights
    found: Sequence[Sequence[Scored]]

    @property
    def name(self) -> str:
        return f"{self.reranker} x {self.weights[0]:g} + retriever x {self.weights[1]:g}"


def tuned_ensembles(
    rankings: Rankings, rerankers: Sequence[str], depth: int, split: Split
) -> Mapping[str, Ensemble]:
    """Choose weights for each reranker by MAP@10 on the tuning part (Verma et al. 2025, section 3.2.4).

    The retriever stands where the paper has a language model, which this evaluation calls none of.
    """
    made = {}
    for name in rerankers:
        judged = [
            JudgedRankings(_ranking(first), _ranking(second[:depth]), frozenset(question.relevant))
            for question, first, second in zip(
                rankings.questions,
                rankings.reranked[name, depth],
                rankings.retrieved[rankings.source],
                strict=True,
            )
        ]
        tuning = [one for one, within in zip(judged, split.tuning, strict=True) if within]
        weights = tune_weights(tuning, RERANKER_SCORE, RETRIEVER_SCORE, split=str(split.part)).weights
        made[name] = Ensemble(name, weights, [_combined(one, weights) for one in judged])
    return made


def _combined(judged: JudgedRankings, weights: Weights) -> list[Scored]:
    found = weighted_scores(judged.first, judged.second, weights, RERANKER_SCORE, RETRIEVER_SCORE)
    return [Scored(id_, score) for id_, score in found.items()]


def _ranking(found: Sequence[Scored]) -> Ranking:
    return Ranking(tuple(one.id for one in found), tuple(one.score for one in found))
