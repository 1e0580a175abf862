"""What holds for every way to bring query and sentence together, and what for one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ranking.models.backbone import pool
from ranking.models.config import ModelConfig
from ranking.models.fusions import LateFusion, MidFusion, build_model
from ranking.models.model import EvidenceModel
from tests.ranking.models.tiny import HIDDEN, encoder, texts

SENTENCES = texts(9, 3, 1, 7, 9)
QUERIES = texts(7, 4)
EVERY = pytest.mark.parametrize("fusion", ["early", "mid", "late"])


def built(fusion: str, **options: object) -> EvidenceModel[Any]:
    loaded = encoder()
    torch.manual_seed(1)
    return build_model(ModelConfig.model_validate({"fusion": fusion, **options}), loaded).eval()


@EVERY
@pytest.mark.parametrize("context", ["none", "lstm", "transformer"])
def test_the_logits_of_a_query_do_not_depend_on_the_other_queries(fusion: str, context: str) -> None:
    model = built(fusion, context=context, position=True)
    with torch.inference_mode():
        together = model(SENTENCES, QUERIES)
        apart = torch.cat([model(SENTENCES, [query]) for query in QUERIES])
    assert together.shape == (2, 5)
    assert torch.allclose(together, apart, atol=1e-5)


@EVERY
def test_without_context_a_sentence_is_scored_alone(fusion: str) -> None:
    model = built(fusion)
    with torch.inference_mode():
        together = model(SENTENCES, QUERIES[:1])[0]
        alone = torch.stack([model([sentence], QUERIES[:1])[0, 0] for sentence in SENTENCES])
    assert torch.allclose(together, alone, atol=1e-5)


@EVERY
@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("budget", [1, 30])
def test_batches_change_nothing(fusion: str, pooling: str, budget: int) -> None:
    model = built(fusion, pooling=pooling)
    with torch.inference_mode():
        expected = model(SENTENCES, QUERIES)
        model.backbone.token_budget = budget
        assert torch.allclose(model(SENTENCES, QUERIES), expected, atol=1e-5)


@EVERY
def test_cached_logits_equal_uncached_ones(fusion: str) -> None:
    model = built(fusion, context="lstm")
    with torch.inference_mode():
        source = model.encode_source(SENTENCES)
        first, again = model.score(source, QUERIES), model.score(source, QUERIES)
    assert torch.equal(first, again)
    assert torch.allclose(first, model(SENTENCES, QUERIES), atol=1e-5)  # with gradients, nothing is kept


@EVERY
def test_every_weight_but_the_poolers_learns(fusion: str) -> None:
    model = built(fusion, context="lstm", position=True).train()
    model(SENTENCES, QUERIES).square().sum().backward()
    without = {name for name, weight in model.named_parameters() if weight.grad is None}
    assert {name for name in without if "pooler" not in name} == set()
    embedded = model.backbone.encoder.get_parameter("embeddings.word_embeddings.weight").grad
    assert embedded is not None
    assert embedded[QUERIES[0][0]].abs().sum() > 0
    assert embedded[SENTENCES[2][0]].abs().sum() > 0


@EVERY
def test_ten_thousand_sentences_one_and_none_are_scored(fusion: str) -> None:
    model = built(fusion, context="lstm", position=True)
    with torch.inference_mode():
        logits = model(texts(1, 6) * 5000, texts(4))
        assert logits.shape == (1, 10_000)
        assert logits.isfinite().all()
        assert model(texts(1), texts(4)).isfinite().all()
        assert model([], texts(4)).shape == (1, 0)


def test_early_scores_are_those_of_the_backbone_on_the_pair() -> None:
    model = built("early")
    (query,), (sentence,) = texts(4), texts(6)
    row = torch.tensor([[2, *query, 3, *sentence, 3]])
    types = torch.tensor([[0] * 6 + [1] * 7])
    with torch.inference_mode():
        state = model.backbone.encoder(input_ids=row, token_type_ids=types).last_hidden_state[:, 0]
        expected = model.head.linear(state).item()
        assert model([sentence], [query]).item() == pytest.approx(expected, abs=1e-5)


def test_in_mid_fusion_a_vector_is_the_mean_of_the_layer_over_both_texts() -> None:
    model = built("mid")
    assert isinstance(model, MidFusion)
    with torch.inference_mode():
        states = [
            model.backbone.encoder(input_ids=torch.tensor([[2, *text, 3]])).last_hidden_state[0]
            for text in (QUERIES[0], SENTENCES[1])
        ]
        fused = model.layer(torch.cat(states)[None])
        expected = model.head.linear(pool(fused, None, "mean"))
        assert torch.allclose(model(SENTENCES, QUERIES)[0, 1], expected, atol=1e-5)


def test_a_source_of_mid_fusion_holds_every_token_once_and_no_padding() -> None:
    with torch.inference_mode():
        source = built("mid").encode_source(SENTENCES)
    assert source.states.shape == (sum(map(len, SENTENCES)) + 2 * 5, HIDDEN)
    assert sorted(source.rows) == [0, 1, 2, 3, 4]


def test_a_source_of_late_fusion_is_one_vector_a_sentence_beside_the_querys() -> None:
    model = built("late", context="lstm")
    assert isinstance(model, LateFusion)
    with torch.inference_mode():
        assert model.encode_source(SENTENCES).vectors.shape == (5, HIDDEN)
    assert model.head.context.get_parameter("lstm.weight_ih_l0").shape[1] == 2 * HIDDEN


def test_without_context_the_query_can_still_change_the_order_of_late_fusion() -> None:
    with torch.inference_mode():
        scored = built("late")(SENTENCES, QUERIES)
    # A linear head on the two vectors alone would add one constant to all sentences.
    assert (scored[0] - scored[1]).std() > 1e-3


def test_limits_beyond_the_encoders_positions_are_refused() -> None:
    with pytest.raises(ValueError, match="3 special tokens are more than the 128 positions"):
        build_model(ModelConfig(max_query_tokens=26, max_sentence_tokens=100), encoder(positions=128))


def test_roberta_counts_its_positions_from_one_past_the_padding() -> None:
    with pytest.raises(ValueError, match="4 special tokens are more than the 127 positions"):
        build_model(ModelConfig(max_query_tokens=24, max_sentence_tokens=100), encoder("roberta", 128))
