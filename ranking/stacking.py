"""Two rankers as one: a logistic regression over their scores, so that their sum is a probability again.

A cross-encoder reads a sentence with the query, and sees neither its place nor its neighbours. The logistic
ranker sees just those. Each is trained by itself; only three numbers are fitted on both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict, FiniteFloat

from ranking.errors import RankerError
from ranking.ranker import Scores


class StackWeights(BaseModel):
    """What each part counts for. The sum is a logit.

    Attributes:
        model: Of the neural model's score.
        logistic: Of the logistic ranker's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

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
