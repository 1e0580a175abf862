from __future__ import annotations

import torch

from ranking.models.config import ModelConfig
from ranking.models.fusions import LateFusion, build_model
from tests.ranking.models.tiny import HIDDEN, encoder, texts

SENTENCES = texts(9, 3, 1, 7, 9)
QUERIES = texts(7, 4)


def model(**options: object) -> LateFusion:
    loaded = encoder()
    torch.manual_seed(1)
    built = build_model(ModelConfig.model_validate({"fusion": "late", **options}), loaded).eval()
    assert isinstance(built, LateFusion)
    return built


def test_the_source_is_one_vector_a_sentence() -> None:
    with torch.inference_mode():
        assert model().encode_source(SENTENCES).vectors.shape == (5, HIDDEN)


def test_the_lstm_reads_both_vectors_side_by_side() -> None:
    weight = model(context="lstm").head.context.get_parameter("lstm.weight_ih_l0")
    assert weight.shape[1] == 2 * HIDDEN


def test_without_context_the_query_can_still_change_the_order() -> None:
    late = model()
    with torch.inference_mode():
        scored = late(SENTENCES, QUERIES)
    # A linear head on the two vectors alone would add one constant to all sentences.
    assert (scored[0] - scored[1]).std() > 1e-3
