from __future__ import annotations

import pytest
import torch

from ranking.models.backbone import pool
from ranking.models.config import ModelConfig
from ranking.models.fusions import MidFusion, build_model
from tests.ranking.models.tiny import HIDDEN, encoder, texts

SENTENCES = texts(9, 3, 1, 7, 9)
QUERIES = texts(7, 4)


def model(**options: object) -> MidFusion:
    loaded = encoder()
    torch.manual_seed(1)
    built = build_model(ModelConfig.model_validate({"fusion": "mid", **options}), loaded).eval()
    assert isinstance(built, MidFusion)
    return built


def test_the_source_holds_every_token_once_and_no_padding() -> None:
    with torch.inference_mode():
        source = model().encode_source(SENTENCES)
    assert source.states.shape == (sum(map(len, SENTENCES)) + 2 * 5, HIDDEN)
    assert sorted(source.rows) == [0, 1, 2, 3, 4]


def test_a_sentences_vector_is_the_mean_of_the_layer_over_both_texts() -> None:
    mid = model()
    with torch.inference_mode():
        states = [
            mid.backbone.encoder(input_ids=torch.tensor([[2, *text, 3]])).last_hidden_state[0]
            for text in (QUERIES[0], SENTENCES[1])
        ]
        fused = mid.layer(torch.cat(states)[None])
        expected = mid.head.linear(pool(fused, None, "mean"))
        assert torch.allclose(mid(SENTENCES, QUERIES)[0, 1], expected, atol=1e-5)


@pytest.mark.parametrize("budget", [1, 30, 10_000])
def test_batches_change_nothing(budget: int) -> None:
    mid = model()
    with torch.inference_mode():
        expected = mid(SENTENCES, QUERIES)
        mid.backbone.token_budget = budget
        assert torch.allclose(mid(SENTENCES, QUERIES), expected, atol=1e-5)


def test_kept_projections_change_nothing() -> None:
    mid = model()
    with torch.inference_mode():
        source = mid.encode_source(SENTENCES)
        first, again = mid.score(source, QUERIES), mid.score(source, QUERIES)
        assert source.projected is not None
    assert torch.equal(first, again)
    assert torch.allclose(first, mid(SENTENCES, QUERIES), atol=1e-5)  # with gradients, nothing is kept


def test_gradients_reach_the_backbone_through_both_texts() -> None:
    mid = model().train()
    mid(SENTENCES, QUERIES).square().sum().backward()
    without = [name for name, weight in mid.named_parameters() if weight.grad is None]
    assert all("pooler" in name for name in without)
    embedded = mid.backbone.encoder.get_parameter("embeddings.word_embeddings.weight").grad
    assert embedded is not None
    assert embedded[QUERIES[0][0]].abs().sum() > 0
    assert embedded[SENTENCES[2][0]].abs().sum() > 0
