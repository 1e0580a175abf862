"""The last step of a recipe with `stack`: the trained model and a logistic ranker become one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from pydantic import FiniteFloat

from cases.definitions import Section
from ranking.errors import RankerError
from ranking.examples import Example
from ranking.logistic import LogisticRanker, fit_logistic
from ranking.ranker import Scores
from ranking.training.documents import Document
from ranking.training.recipe import CutoffRule
from ranking.training.validation import Validation, validation_of
from ranking.tuning import ScoredCase


class StackWeights(Section):
    """What each part counts for. The sum is a logit.

    Attributes:
        model: Of the neural model's score.
        logistic: Of the logistic ranker's.
    """

    model: FiniteFloat
    logistic: FiniteFloat
    intercept: FiniteFloat

    def combine(self, model: Scores, logistic: Scores) -> Scores:
        """Logits of any equal shape."""
        return np.asarray(self.model * model + self.logistic * logistic + self.intercept, dtype=np.float32)


def fit_stack(
    model: Sequence[Scores], logistic: Sequence[Scores], labels: Sequence[Sequence[bool]]
) -> StackWeights:
    """Fit on cases that neither part was trained on, or the better memory would win.

    Args:
        model: Scores of each case, shape (sentences,).
        logistic: The same.
        labels: The same.

    Raises:
        RankerError: All sentences are evidence, or none is.
    """
    from sklearn.linear_model import LogisticRegression

    evidence = np.concatenate([np.asarray(of_case, dtype=np.bool_) for of_case in labels])
    if not evidence.any() or evidence.all():
        raise RankerError("a stack is fitted on sentences that are evidence and such that are not")
    columns = np.stack([np.concatenate(model), np.concatenate(logistic)], axis=1).astype(np.float64)
    fitted = LogisticRegression(max_iter=1000).fit(columns, evidence)
    of_model, of_logistic = (round(float(value), 6) for value in fitted.coef_[0])
    return StackWeights(model=of_model, logistic=of_logistic, intercept=round(float(fitted.intercept_[0]), 6))


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
