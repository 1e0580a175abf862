from __future__ import annotations

from pathlib import Path

import numpy as np

from ranking.neural import NeuralRanker
from ranking.source_vectors import with_source
from ranking.verify import verify
from tests.ranking.training.conftest import Train

SOURCE = ["fever night", "lung lung", "scan"]


def test_a_source_that_one_process_encoded_is_not_encoded_by_the_next(
    tiny_train: Train, tmp_path: Path, encoder_folder: str
) -> None:
    tiny_train(
        tmp_path / "r",
        epochs=1,
        model={"fusion": "late", "encoder": encoder_folder, "max_query_tokens": 8, "max_sentence_tokens": 8},
    )
    first, _ = with_source(NeuralRanker.open(tmp_path / "r"), SOURCE, tmp_path / "kept")
    before = first.rank("lung", SOURCE).scores
    (kept,) = (tmp_path / "kept").rglob("*.safetensors")
    written = kept.stat().st_mtime_ns
    second, _ = with_source(NeuralRanker.open(tmp_path / "r"), SOURCE, tmp_path / "kept")
    np.testing.assert_allclose(second.rank("lung", SOURCE).scores, before, atol=1e-5)
    assert kept.stat().st_mtime_ns == written


def test_lines_are_held_against_the_tuned_threshold_whatever_the_cut_off(trained: Path) -> None:
    ranker = NeuralRanker.open(trained)
    ranker.manifest = ranker.manifest.model_copy(
        update={"cutoff": ranker.manifest.held_out.tuned["top_k"].cutoff}
    )
    found = verify(ranker, ["lung"], SOURCE)
    assert found.threshold == ranker.manifest.held_out.tuned["threshold"].cutoff.model_dump()["tau"]
