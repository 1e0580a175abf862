from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from evals.statements.measures import auc, balanced, fit_weights, separation, threshold


def test_auc_is_that_of_scikit_learn_with_ties() -> None:
    right, wrong = [3.0, 1.0, 2.0, 1.0], [0.0, 1.0, 2.5]
    assert auc(right, wrong) == pytest.approx(roc_auc_score([1] * 4 + [0] * 3, right + wrong))
    assert math.isnan(auc([], wrong)) and math.isnan(auc(right, []))


def test_a_threshold_marks_no_more_than_its_share() -> None:
    right = [float(value) for value in range(40)]
    assert threshold(right) == 2.0
    assert sum(value < threshold(right) for value in right) / 40 == 0.05
    assert threshold([4.0, 4.0, 9.0]) == 4.0


def test_the_threshold_comes_from_one_half_and_the_figures_from_the_other() -> None:
    kinds = ["right"] * 4 + ["number", "drug", "drug", "number"]
    scores = [1.0, 2.0, 0.5, 3.0, 0.0, 0.7, 2.0, 9.0]
    first = [True, True, False, False, False, False, False, True]
    found = separation(kinds, scores, first, "right")
    assert found.marked == 0.5
    assert found.caught == {"number": 1.0, "drug": 0.5}
    assert found.auc == pytest.approx(4 / 6)
    assert found.auc_of == {"number": 1.0, "drug": 0.5}


def test_a_signal_that_speaks_against_support_gets_no_weight() -> None:
    draws = np.random.default_rng(1)
    right = [bool(value) for value in draws.integers(0, 2, 200)]
    signals = draws.normal(size=(200, 3))
    signals[:, 0] += right
    signals[:, 1] -= right
    weights, _ = fit_weights(signals, right, [1.0] * 200)
    assert weights[0] > 0 and weights[1] == 0 and weights.min() >= 0


def test_right_and_wrong_ones_of_each_set_weigh_the_same() -> None:
    groups = [("a", True), ("a", False), ("a", False), ("b", True)]
    weights = balanced(groups)
    assert weights == pytest.approx([4 / 3, 2 / 3, 2 / 3, 4 / 3])
    assert sum(weights) == pytest.approx(len(groups))
