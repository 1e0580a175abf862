from __future__ import annotations

import pytest
import torch
from torch import nn

from ranking.models.head import LstmContext, TransformerContext, TransformerLayer, position_features


def parameters(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


@pytest.mark.parametrize(
    ("size_in", "size_out", "expected"),
    [(768, 768, 3_545_088), (1024, 1024, 6_299_648), (1536, 768, 5_904_384), (2048, 1024, 10_493_952)],
)
def test_the_lstm_has_the_papers_parameters(size_in: int, size_out: int, expected: int) -> None:
    with torch.device("meta"):
        assert parameters(LstmContext(size_in, size_out)) == expected


@pytest.mark.parametrize(("size", "heads", "expected"), [(768, 12, 7_087_872), (1024, 16, 12_596_224)])
def test_the_transformer_has_one_layers_parameters(size: int, heads: int, expected: int) -> None:
    with torch.device("meta"):
        assert parameters(TransformerContext(size, size, heads, 0.1)) == expected


def test_relative_position_runs_from_0_to_1() -> None:
    assert position_features(5)[:, 0].tolist() == [0, 0.25, 0.5, 0.75, 1]


def test_a_single_sentence_is_first_and_last() -> None:
    assert position_features(1).tolist() == [[0, 0, 0, 1, 1]]


def layer() -> TransformerLayer:
    torch.manual_seed(0)
    return TransformerLayer(16, 4, 0.1).eval()


def reference(ours: TransformerLayer) -> nn.TransformerEncoderLayer:
    theirs = nn.TransformerEncoderLayer(16, 4, 64, activation="gelu", batch_first=True).eval()
    theirs.load_state_dict(
        {
            "self_attn.in_proj_weight": ours.projections.weight,
            "self_attn.in_proj_bias": ours.projections.bias,
            "self_attn.out_proj.weight": ours.output.weight,
            "self_attn.out_proj.bias": ours.output.bias,
            "linear1.weight": ours.up.weight,
            "linear1.bias": ours.up.bias,
            "linear2.weight": ours.down.weight,
            "linear2.bias": ours.down.bias,
            "norm1.weight": ours.attention_norm.weight,
            "norm1.bias": ours.attention_norm.bias,
            "norm2.weight": ours.norm.weight,
            "norm2.bias": ours.norm.bias,
        }
    )
    return theirs


def test_it_computes_what_torchs_layer_computes() -> None:
    ours, states = layer(), torch.randn(3, 9, 16)
    with torch.no_grad():
        assert torch.allclose(ours(states), reference(ours)(states), atol=1e-5)


def test_masked_it_computes_what_torchs_layer_computes() -> None:
    ours, states = layer(), torch.randn(2, 9, 16)
    mask = torch.arange(9) < torch.tensor([9, 4])[:, None]
    with torch.no_grad():
        expected = reference(ours)(states, src_key_padding_mask=~mask)
        assert torch.allclose(ours(states, mask)[mask], expected[mask], atol=1e-5)


def test_the_content_of_padding_changes_nothing() -> None:
    ours, states = layer(), torch.randn(2, 9, 16)
    mask = torch.arange(9) < torch.tensor([9, 4])[:, None]
    other = states.masked_fill(~mask[:, :, None], 1e4)
    with torch.no_grad():
        assert torch.equal(ours(states, mask)[mask], ours(other, mask)[mask])
