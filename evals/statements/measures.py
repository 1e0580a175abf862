"""How well a score tells right statements from wrong ones, and the rule that adds several signals up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Floats = NDArray[np.float64]

FALSE_ALARMS = 0.05
"""Share of right statements that a threshold may mark on the half that it is chosen on."""


def auc(right: Sequence[float], wrong: Sequence[float]) -> float:
    """Probability that a right statement scores above a wrong one, ties counted half; NaN if either lacks."""
    if not (right and wrong):
        return float("nan")
    ranks = rankdata([*right, *wrong])[: len(right)]
    return float((ranks.sum() - len(right) * (len(right) + 1) / 2) / (len(right) * len(wrong)))


def threshold(right: Sequence[float]) -> float:
    """The highest score below which at most `FALSE_ALARMS` of right statements lie."""
    ordered = sorted(right)
    return ordered[int(FALSE_ALARMS * len(ordered))]


@dataclass(frozen=True, slots=True)
class Separation:
    """Performance of a score on the half that its threshold was not chosen on.

    Attributes:
        auc: Right against all wrong ones; `auc_of` against each kind.
        marked: Share of right ones below the threshold.
        caught: Share of wrong ones below it, by kind.
    """

    auc: float
    auc_of: Mapping[str, float]
    marked: float
    caught: Mapping[str, float]


def separation(
    kinds: Sequence[str], scores: Sequence[float], chosen_on: Sequence[bool], right: str
) -> Separation:
    """Choose the threshold on one half of the statements, those of `chosen_on`, and report the other.

    The kind of a statement is `right`, or what is wrong with it; right ones score high.
    """
    rows = list(zip(kinds, scores, chosen_on, strict=True))
    least = threshold([score for kind, score, first in rows if first and kind == right])
    held_out = [(kind, score) for kind, score, first in rows if not first]
    of = {
        kind: [score for its, score in held_out if its == kind]
        for kind in dict.fromkeys(kind for kind, _ in held_out)
    }
    rights = of.pop(right)

    def below(scores: Sequence[float]) -> float:
        return sum(score < least for score in scores) / len(scores)

    return Separation(
        auc(rights, [score for scores in of.values() for score in scores]),
        {kind: auc(rights, scores) for kind, scores in of.items()},
        below(rights),
        {kind: below(scores) for kind, scores in of.items()},
    )


def fit_weights(signals: Floats, right: Sequence[bool], weights: Sequence[float]) -> tuple[Floats, float]:
    """Weights, none below 0, and intercept of a logistic rule; a signal with a negative weight is left out.

    Signals have shape (statements, signals). A statement is right or not, and has its weight in the fit.
    """
    from sklearn.linear_model import LogisticRegression

    used = list(range(signals.shape[1]))
    while True:
        model = LogisticRegression(max_iter=1000).fit(signals[:, used], right, sample_weight=weights)
        coefficients = model.coef_[0]
        if coefficients.min() >= 0:
            found = np.zeros(signals.shape[1])
            found[used] = coefficients
            return found, float(model.intercept_[0])
        used.pop(int(coefficients.argmin()))


def balanced(groups: Sequence[tuple[str, bool]]) -> list[float]:
    """A weight for each statement, so that right and wrong ones of every set weigh the same together."""
    counts = {group: groups.count(group) for group in set(groups)}
    return [len(groups) / (len(counts) * counts[group]) for group in groups]
