from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ranking.neural import NeuralRanker
from ranking.scoring import average_precision
from ranking.splits import split
from tests.ranking.training.conftest import Train
from tests.ranking.training.tiny import examples


def test_a_reopened_stack_scores_as_it_was_validated(tiny_train: Train, tmp_path: Path) -> None:
    manifest = tiny_train(tmp_path / "trained", stack="logistic")
    (tmp_path / "trained").rename(tmp_path / "moved")
    ranker = NeuralRanker.open(tmp_path / "moved")
    held_out = split(examples(), 0.3, 1).held_out
    rows = [ranker.rank(one.query, one.sentences).scores for one in held_out]
    found = [average_precision(row, one.labels or ()) for row, one in zip(rows, held_out, strict=True)]
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
