"""What looks at the sequence of sentence vectors before the head (Abridge 2025, section 3.1 and table 9)."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from ranking.models.config import DocumentContext
from ranking.models.transformer_layer import TransformerLayer


class LstmContext(nn.Module):
    """One bidirectional LSTM layer.

    All queries of a call look at the same sentences, so no sequence of a batch is shorter than another.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size // 2, batch_first=True, bidirectional=True)

    def forward(self, vectors: Tensor) -> Tensor:
        """From shape (queries, sentences, input) to (queries, sentences, hidden)."""
        return cast(Tensor, self.lstm(vectors)[0])


class TransformerContext(nn.Module):
    """One transformer layer, the ablation of table 9.

    The vectors carry no positions, so it sees which sentences there are and not their order. Wider input, as
    LateFusion's, is first projected to the hidden size: the layer is not to outgrow the backbone's.
    """

    def __init__(self, input_size: int, hidden_size: int, heads: int, dropout: float) -> None:
        super().__init__()
        same = input_size == hidden_size
        self.projection = nn.Identity() if same else nn.Linear(input_size, hidden_size)
        self.layer = TransformerLayer(hidden_size, heads, dropout)

    def forward(self, vectors: Tensor) -> Tensor:
        """From shape (queries, sentences, input) to (queries, sentences, hidden)."""
        return cast(Tensor, self.layer(self.projection(vectors)))


def build_context(
    kind: DocumentContext, input_size: int, hidden_size: int, heads: int, dropout: float
) -> tuple[nn.Module, int]:
    """The context layer, and the width of what it returns."""
    if kind == "lstm":
        return LstmContext(input_size, hidden_size), 2 * (hidden_size // 2)
    if kind == "transformer":
        return TransformerContext(input_size, hidden_size, heads, dropout), hidden_size
    return nn.Identity(), input_size
