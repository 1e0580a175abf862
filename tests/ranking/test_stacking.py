from __future__ import annotations

import numpy as np
import pytest

from ranking.errors import RankerError
from ranking.stacking import fit_stack

CHANCE = np.random.default_rng(7)
LABELS = [(CHANCE.random(8) < 0.3).tolist() for _ in range(60)]
HALVES = [(np.asarray(case) + CHANCE.normal(0, 1, (2, 8))).astype(np.float32) for case in LABELS]


def test_two_views_of_the_evidence_count_alike_and_noise_counts_for_nothing() -> None:
    stack = fit_stack([one[0] for one in HALVES], [one[1] for one in HALVES], LABELS)
    assert stack.model == pytest.approx(stack.logistic, rel=0.4)
    noise = [CHANCE.normal(0, 1, 8).astype(np.float32) for _ in LABELS]
    alone = fit_stack([one[0] for one in HALVES], noise, LABELS)
    assert abs(alone.logistic) < 0.3 * alone.model


def test_the_sum_is_a_probability_in_the_mean() -> None:
    stack = fit_stack([one[0] for one in HALVES], [one[1] for one in HALVES], LABELS)
    logits = np.concatenate([stack.combine(*one) for one in HALVES])
    assert np.mean(1 / (1 + np.exp(-logits))) == pytest.approx(np.mean(LABELS), abs=1e-3)


@pytest.mark.parametrize("label", [True, False])
def test_labels_of_one_kind_are_refused(label: bool) -> None:
    scores = [np.zeros(2, np.float32)]
    with pytest.raises(RankerError, match="fitted on sentences that are evidence and such that are not"):
        fit_stack(scores, scores, [[label, label]])
