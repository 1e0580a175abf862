"""Rerankers and the retriever together: weights chosen on one part of the questions, tested on the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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


class Ensemble(NamedTuple):
    """Weights of a reranker and of the retriever, and a ranking a question, tuning and testing."""

    weights: Weights
    found: Sequence[Sequence[Scored]]


def tuned_ensembles(
    rankings: Rankings, rerankers: Sequence[str], depth: int, split: Split
) -> Mapping[str, Ensemble]:
    """Choose weights for each reranker by MAP@10 on the tuning part (Verma et al. 2025, section 3.2.4).

    The retriever takes the place of the paper's language model, as this evaluation calls none.
    """
    made = {}
    for name in rerankers:
        pairs = zip(rankings.reranked[name, depth], rankings.retrieved[rankings.source], strict=True)
        judged = [
            JudgedRankings(_ranking(first), _ranking(second[:depth]), frozenset(question.relevant))
            for question, (first, second) in zip(rankings.questions, pairs, strict=True)
        ]
        tuning = [one for one, within in zip(judged, split.tuning, strict=True) if within]
        weights = tune_weights(tuning, RERANKER_SCORE, RETRIEVER_SCORE, split=str(split.part)).weights
        sums = [
            weighted_scores(one.first, one.second, weights, RERANKER_SCORE, RETRIEVER_SCORE) for one in judged
        ]
        made[name] = Ensemble(weights, [[Scored(*item) for item in found.items()] for found in sums])
    return made


def _ranking(found: Sequence[Scored]) -> Ranking:
    return Ranking(tuple(one.id for one in found), tuple(one.score for one in found))
