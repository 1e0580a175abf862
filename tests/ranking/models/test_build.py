from __future__ import annotations

import pytest

from ranking.models.config import ModelConfig
from ranking.models.fusions import build_model
from tests.ranking.models.tiny import encoder


def test_limits_beyond_the_encoders_positions_are_refused() -> None:
    with pytest.raises(ValueError, match="3 special tokens are more than the 128 positions"):
        build_model(ModelConfig(max_query_tokens=26, max_sentence_tokens=100), encoder(positions=128))


def test_roberta_counts_its_positions_from_one_past_the_padding() -> None:
    with pytest.raises(ValueError, match="4 special tokens are more than the 127 positions"):
        build_model(ModelConfig(max_query_tokens=24, max_sentence_tokens=100), encoder("roberta", 128))
