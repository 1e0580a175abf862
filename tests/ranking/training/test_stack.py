from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ranking.errors import RankerError
from ranking.examples import split
from ranking.measures import average_precision_of_scores
from ranking.neural import NeuralRanker
from ranking.training.stack import fit_stack
from tests.ranking.training.conftest import Train
from tests.ranking.training.tiny import examples

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


def test_a_reopened_stack_scores_as_it_was_validated(tiny_train: Train, tmp_path: Path) -> None:
    manifest = tiny_train(tmp_path / "trained", stack="logistic")
    (tmp_path / "trained").rename(tmp_path / "moved")
    ranker = NeuralRanker.open(tmp_path / "moved")
    held_out = split(examples(), 0.3, 1).held_out
    rows = [ranker.rank(one.query, one.sentences).scores for one in held_out]
    found = [
        average_precision_of_scores(row, one.labels or ()) for row, one in zip(rows, held_out, strict=True)
    ]
    assert np.mean([value for value in found if value is not None]) == pytest.approx(
        manifest.held_out.average_precision
    )
    assert ranker.cutoff == manifest.held_out.cutoff


def test_the_model_of_a_stack_is_the_one_that_would_be_trained_alone(
    tiny_train: Train, tmp_path: Path
) -> None:
    stacked = tiny_train(tmp_path / "stacked", stack="logistic")
    alone = tiny_train(tmp_path / "alone")
    assert stacked.weights_sha256 == alone.weights_sha256
    assert stacked.scoring_sha256 != alone.scoring_sha256
