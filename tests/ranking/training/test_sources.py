from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

from ranking.models.tokens import Tokenized, tokenize
from ranking.rankers.neural import NeuralRanker
from ranking.training.train import train
from ranking.verify import verify
from tests.ranking.training.conftest import Train
from tests.ranking.training.tiny import data, job

SOURCE = ["fever night", "lung lung", "scan", "tablet " * 9]
LIMITS = {"max_query_tokens": 8, "max_sentence_tokens": 8}


@pytest.fixture(scope="module", params=["mid", "late"])
def folder(
    request: pytest.FixtureRequest, encoder_folder: str, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A ranker that knows something of a document before any query."""
    folder = tmp_path_factory.mktemp(request.param) / "r"
    model = {"fusion": request.param, "context": "lstm", "encoder": encoder_folder, **LIMITS}
    train(job(encoder_folder, epochs=1, model=model), data(), folder)
    return folder


def opened(folder: Path, kept: Path) -> NeuralRanker:
    ranker = NeuralRanker.open(folder)
    assert ranker.sources is not None
    ranker.sources.folder = kept
    return ranker


def test_a_source_that_one_process_encoded_is_not_encoded_by_the_next(folder: Path, tmp_path: Path) -> None:
    before = opened(folder, tmp_path).rank("lung", SOURCE)
    (kept,) = tmp_path.iterdir()
    written = kept.stat().st_mtime_ns
    after = opened(folder, tmp_path).rank("lung", SOURCE)
    np.testing.assert_array_equal(after.scores, before.scores)
    assert after.cut_sentences == before.cut_sentences == (3,)
    assert kept.stat().st_mtime_ns == written


def test_a_damaged_source_is_encoded_anew(folder: Path, tmp_path: Path) -> None:
    before = opened(folder, tmp_path).rank("lung", SOURCE).scores
    (kept,) = tmp_path.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole[: len(whole) // 2])
    np.testing.assert_array_equal(opened(folder, tmp_path).rank("lung", SOURCE).scores, before)
    assert kept.read_bytes() == whole


def test_other_weights_find_nothing_old(
    folder: Path, tmp_path: Path, tiny_train: Train, encoder_folder: str
) -> None:
    opened(folder, tmp_path / "kept").rank("lung", SOURCE)
    model = {"fusion": "late", "encoder": encoder_folder, **LIMITS}
    tiny_train(tmp_path / "other", epochs=1, seed=7, model=model)
    fresh = NeuralRanker.open(tmp_path / "other").rank("lung", SOURCE).scores
    other = opened(tmp_path / "other", tmp_path / "kept")
    np.testing.assert_array_equal(other.rank("lung", SOURCE).scores, fresh)


def test_a_source_is_encoded_once_for_its_queries(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranker = NeuralRanker.open(folder)
    encoded: list[Sequence[str]] = []

    def tokenized(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], limit: int) -> Tokenized:
        encoded.append(texts)
        return tokenize(tokenizer, texts, limit)

    monkeypatch.setattr("ranking.rankers.neural.tokenize", tokenized)
    for query in ("lung", "scan"):
        ranker.rank(query, SOURCE)
    assert encoded == [SOURCE, ["lung"], ["scan"]]


def test_lines_are_held_against_the_tuned_threshold_whatever_the_cut_off(trained: Path) -> None:
    ranker = NeuralRanker.open(trained)
    ranker.manifest = ranker.manifest.model_copy(
        update={"cutoff": ranker.manifest.held_out.tuned["top_k"].cutoff}
    )
    found = verify(ranker, ["lung"], SOURCE)
    assert found.threshold == ranker.manifest.held_out.tuned["threshold"].cutoff.model_dump()["tau"]
