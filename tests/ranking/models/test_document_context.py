from __future__ import annotations

import pytest
import torch
from torch import nn

from ranking.models.document_context import LstmContext, TransformerContext
from ranking.models.positions import position_features


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
