"""Which cases may be answered without a person: a bound on their mean loss, by learn-then-test.

Angelopoulos, Bates, Candes, Jordan and Lei, Learn then Test: Calibrating Predictive Algorithms to Achieve
Risk Control (arXiv:2110.01052, 2021). Each threshold of the case's confidence is a hypothesis that the mean
loss of the cases above it exceeds the risk. Thresholds are tested from the surest cases on, each at the full
level, and the first that is not rejected ends the test (fixed-sequence testing), so that the chance of any
wrong rejection is at most one minus the confidence. The sequence is fixed before the tested cases are looked
at: the rule, the probabilities behind the confidence and the thresholds come from other cases.

P-values are exact binomial tails where losses are 0 or 1 (Clopper and Pearson 1934), else those of a betting
martingale (Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting,
arXiv:2010.09686, 2020), which needs far fewer cases than Hoeffding's or Bentkus's where losses vary little.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import bdtr

from evals.calibration.labelled_cases import LabelledCase, Labels, mask
from nodes.evidence.calibration import LossName
from nodes.evidence.rule import EvidenceRule, judge
from ranking.measures import Counts, scores
from ranking.prefixes import Floats

STEPS = 20
"""Thresholds of a test: twentieths of the cases in the sequence."""

_POINTS = 100

LOSS_WORDS: Mapping[LossName, str] = {
    "wrong_labels": "share of wrong labels",
    "any_wrong": "share of cases with a wrong label",
    "missed": "share of essential sentences missed",
    "f1": "1 - F1 of a case",
}


def cases_needed(risk: float, confidence: float) -> int:
    """Fewest cases that can show a bound: all of them without a loss."""
    return math.ceil(round(math.log(1 - confidence) / math.log(1 - risk), 9))


def p_value(losses: Floats, risk: float, confidence: float, *, binary: bool) -> float:
    """P-value of the hypothesis that the mean loss exceeds the risk.

    Args:
        losses: Of independent cases, each 0 to 1, in an order that does not depend on them.
        risk: To be refuted.
        confidence: Confidence used to size the bets; the p-value is valid for any.
        binary: Whether each loss is 0 or 1.
    """
    if not losses.size:
        return 1.0
    if binary:
        return float(bdtr(float(losses.sum()), losses.size, risk))
    # A bet on each case against the hypothesis, sized by the cases before it. Under the hypothesis the
    # capital is not expected to grow, so it multiplies by 1/p with a probability of at most p (Ville).
    before = np.arange(1, losses.size + 1)
    seen = np.concatenate(([0.0], np.cumsum(losses)[:-1]))
    means = (seen + risk) / before
    squares = np.concatenate(([0.0], np.cumsum((losses - means) ** 2)[:-1]))
    variances = (squares + _FIRST_VARIANCE) / before
    bets = np.sqrt(2 * math.log(1 / (1 - confidence)) / (losses.size * variances))
    bets = np.minimum(bets, 1 / (1 - risk))
    with np.errstate(divide="ignore"):
        capital = np.cumsum(np.log(np.maximum(0.0, 1 - bets * (losses - risk))))
    return float(min(1.0, math.exp(-max(0.0, float(capital.max())))))


_FIRST_VARIANCE = 0.05
"""Variance of losses before any is seen. So small that cases without a loss prove as much as exact tails
do."""


def upper_bound(losses: Floats, confidence: float, *, binary: bool) -> float:
    """The smallest risk that the cases refute, by halving."""
    if not losses.size:
        return 1.0
    low, high = float(losses.mean()), 1.0
    for _ in range(20):
        middle = (low + high) / 2
        if p_value(losses, middle, confidence, binary=binary) <= 1 - confidence:
            high = middle
        else:
            low = middle
    return high


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Outcomes of cases under a rule. Arrays have shape (cases,).

    Attributes:
        confidences: What cases are sorted out by.
        losses: 0 to 1.
    """

    confidences: Floats
    losses: Floats


def loss_of(name: LossName, chosen: Labels, essential: Labels) -> float:
    """Loss of one case, from masks of shape (sentences,)."""
    wrong = chosen != essential
    match name:
        case "wrong_labels":
            return float(wrong.mean())
        case "any_wrong":
            return float(wrong.any())
        case "missed":
            return float((essential & ~chosen).sum() / max(1, essential.sum()))
        case "f1":
            counts = Counts(int((chosen & essential).sum()), int(chosen.sum()), int(essential.sum()))
            return 1.0 - scores(counts, "perfect").f1


def outcomes(rule: EvidenceRule, cases: Sequence[LabelledCase], loss: LossName) -> Outcomes:
    """Apply a rule that has a slope."""
    confidences, losses = np.zeros(len(cases)), np.zeros(len(cases))
    for row, case in enumerate(cases):
        judged = judge(rule, case.model, case.ranker)
        assert judged.confidence is not None
        confidences[row] = judged.confidence
        losses[row] = loss_of(loss, mask(judged.chosen, case.essential.size), case.essential)
    return Outcomes(confidences, losses)


def fixed_sequence(
    known: Outcomes, tested: int, risk: float, confidence: float, *, binary: bool
) -> list[float]:
    """Thresholds from the surest cases on, computed from cases outside the test.

    The test begins where these cases promise the smallest p-value: too few cases can refute nothing.
    """
    foreseen = _foreseen(known, tested)
    promised = [p_value(losses, risk, confidence, binary=binary) for _, losses in foreseen]
    # The last of equals: where nothing is promised, all cases are tested.
    begin = len(promised) - 1 - int(np.argmin(promised[::-1]))
    thresholds = [threshold for threshold, _ in foreseen[begin:-1]]
    # The last one answers all cases, those that are less sure than any known one too.
    return [*dict.fromkeys(thresholds), 0.0]


def promised_risk(known: Outcomes, tested: int, confidence: float, *, binary: bool) -> float:
    """The smallest risk that cases like the known ones could show, by these alone."""
    return min(upper_bound(losses, confidence, binary=binary) for _, losses in _foreseen(known, tested))


def _foreseen(known: Outcomes, tested: int) -> list[tuple[float, Floats]]:
    """Thresholds from the surest cases on, with losses as if the tested cases were these over again."""
    order = np.argsort(-known.confidences, kind="stable")
    ranked, losses = known.confidences[order], known.losses[order]
    count = order.size
    ends = {max(1, round(count * step / STEPS)) for step in range(1, STEPS + 1)}
    # All cases as sure as the last one belong to it.
    sizes = sorted({int(np.searchsorted(-ranked, -ranked[end - 1], "right")) for end in ends})
    return [
        (float(ranked[size - 1]), np.resize(losses[:size], round(tested * size / count))) for size in sizes
    ]


class Tested(NamedTuple):
    """One threshold.

    Attributes:
        answered: Tested cases at least as sure.
        loss: Their mean loss.
    """

    threshold: float
    answered: int
    loss: float
    p_value: float


def prove(
    sequence: Sequence[float], cases: Outcomes, risk: float, confidence: float, *, binary: bool
) -> tuple[Tested | None, list[Tested]]:
    """Go through the thresholds while the mean loss of answered cases is shown to be at most `risk`.

    Returns:
        The last rejected one, which answers most cases, None if even the first is not rejected; and all that
        were tested, in order.
    """
    proven, tested = None, []
    for threshold in sequence:
        losses = cases.losses[cases.confidences >= threshold]
        loss = float(losses.mean()) if losses.size else 0.0
        one = Tested(threshold, losses.size, loss, p_value(losses, risk, confidence, binary=binary))
        tested.append(one)
        if one.p_value > 1 - confidence:
            break
        proven = one
    return proven, tested


class Point(NamedTuple):
    """The surest of the tested cases.

    Attributes:
        answered: How many.
        loss: Their mean loss.
        upper: The bound on their risk that these cases alone show.
    """

    answered: int
    loss: float
    upper: float


def coverage_curve(cases: Outcomes, confidence: float, *, binary: bool) -> list[Point]:
    """The surest cases at even steps, for a picture: no choice may be made by it."""
    ranked = np.sort(cases.confidences)[::-1]
    places = np.unique(np.linspace(0, ranked.size - 1, min(_POINTS, ranked.size)).round().astype(int))
    found = []
    for threshold in dict.fromkeys(ranked[places].tolist()):
        losses = cases.losses[cases.confidences >= threshold]
        upper = upper_bound(losses, confidence, binary=binary)
        found.append(Point(losses.size, float(losses.mean()), upper))
    return found


def is_binary(loss: LossName) -> bool:
    """Whether a case either has the loss or not."""
    return loss == "any_wrong"
