from __future__ import annotations

import pytest
import torch

from ranking.models.config import ModelConfig
from ranking.models.fusions import build_model
from tests.ranking.models.tiny import encoder, texts


@pytest.mark.parametrize("fusion", ["early", "mid", "late"])
def test_ten_thousand_sentences_are_scored(fusion: str) -> None:
    model = build_model(ModelConfig.model_validate({"fusion": fusion, "context": "lstm"}), encoder()).eval()
    with torch.inference_mode():
        logits = model(texts(1, 6) * 5000, texts(4))
    assert logits.shape == (1, 10_000)
    assert logits.isfinite().all()


@pytest.mark.parametrize("fusion", ["early", "mid", "late"])
def test_one_sentence_and_none_are_scored(fusion: str) -> None:
    model = build_model(ModelConfig.model_validate({"fusion": fusion, "position": True}), encoder()).eval()
    with torch.inference_mode():
        assert model(texts(1), texts(4)).isfinite().all()
        assert model([], texts(4)).shape == (1, 0)
