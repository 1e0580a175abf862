from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ranking.models.config import ModelConfig
from ranking.models.fusions import build_model
from tests.ranking.models.tiny import encoder, texts

SENTENCES = texts(9, 3, 1, 7, 9)
QUERIES = texts(7, 4)


def logits(config: ModelConfig, budget: int = 2048) -> Tensor:
    loaded = encoder()
    torch.manual_seed(1)
    model = build_model(config, loaded).eval()
    model.backbone.token_budget = budget
    with torch.inference_mode():
        scored: Tensor = model(SENTENCES, QUERIES)
    return scored


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_batches_change_nothing(pooling: str) -> None:
    config = ModelConfig.model_validate({"pooling": pooling})
    assert torch.allclose(logits(config, budget=1), logits(config, budget=10_000), atol=1e-5)


def test_the_score_is_that_of_the_backbone_on_the_pair() -> None:
    loaded = encoder()
    model = build_model(ModelConfig(), loaded).eval()
    (query,), (sentence,) = texts(4), texts(6)
    row = torch.tensor([[2, *query, 3, *sentence, 3]])
    types = torch.tensor([[0] * 6 + [1] * 7])
    with torch.inference_mode():
        state = loaded.model(input_ids=row, token_type_ids=types).last_hidden_state[:, 0]
        expected = model.head.linear(state).item()
        assert model([sentence], [query]).item() == pytest.approx(expected, abs=1e-5)


def test_every_weight_but_the_poolers_learns() -> None:
    model = build_model(ModelConfig(context="lstm", position=True), encoder()).train()
    model(SENTENCES, QUERIES).square().sum().backward()
    without = {name for name, weight in model.named_parameters() if weight.grad is None}
    assert {name for name in without if "pooler" not in name} == set()
