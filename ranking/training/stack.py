"""The last step of a recipe with `stack`: the trained model and a logistic ranker become one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ranking.examples import Example
from ranking.logistic import LogisticRanker, fit_logistic
from ranking.ranker import Scores
from ranking.stacking import StackWeights, fit_stack
from ranking.training.documents import Document
from ranking.training.recipe import CutoffRule
from ranking.training.validation import Validation, validation_of
from ranking.tuning import ScoredCase


class Stacked(NamedTuple):
    """A stack, and what it is worth on the held-out examples."""

    logistic: LogisticRanker
    weights: StackWeights
    held_out: Validation


def stack_on_logistic(
    scored: Sequence[tuple[Document, list[Scores]]],
    train: Sequence[Example],
    best: Validation,
    rule: CutoffRule,
) -> Stacked:
    """Fit the logistic ranker on the training examples, and the stack on the held-out ones.

    The three numbers of the stack and the cut-offs come from the same held-out examples that chose the epoch,
    so the figures are a little optimistic.

    Args:
        scored: The held-out documents with the model's scores of each query.
        train: What the model was trained on.
        best: Of the model alone.
        rule: That is to be tuned.

    Raises:
        RankerError: There is too little to fit on.
        WeightsError: The packaged encoder is not installed.
    """
    logistic = fit_logistic(train, data="the training examples of this ranker")
    examples = [example for document, _ in scored for example in document.examples]
    of_logistic = logistic.rank_examples(examples)
    of_model = [scores for _, of_document in scored for scores in of_document]
    labels = [example.labels or () for example in examples]
    weights = fit_stack(of_model, of_logistic, labels)
    cases = [
        ScoredCase(weights.combine(np.asarray(model), other), list(its))
        for model, other, its in zip(of_model, of_logistic, labels, strict=True)
    ]
    return Stacked(logistic, weights, validation_of(cases, best.epoch, rule))
