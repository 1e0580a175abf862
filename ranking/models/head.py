"""From the vectors of a document's sentences to their logits, with document context and positions."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ranking.models.config import DocumentContext, ModelConfig


class TransformerLayer(nn.Module):
    """Self-attention and a feed-forward block of 4 times the width with GELU, each with a residual.

    The same as `nn.TransformerEncoderLayer` without dropout of attention weights. It adds no positions and no
    segments.
    """

    def __init__(self, hidden_size: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.projections = nn.Linear(hidden_size, 3 * hidden_size)
        self.output = nn.Linear(hidden_size, hidden_size)
        self.attention_norm = nn.LayerNorm(hidden_size)
        self.up = nn.Linear(hidden_size, 4 * hidden_size)
        self.down = nn.Linear(4 * hidden_size, hidden_size)
        self.norm = nn.LayerNorm(hidden_size)
        self.dropout = nn.Dropout(dropout)
        nn.init.xavier_uniform_(self.projections.weight)
        nn.init.zeros_(self.projections.bias)
        nn.init.zeros_(self.output.bias)

    def forward(self, states: Tensor, mask: Tensor | None = None, projected: Tensor | None = None) -> Tensor:
        """States in, states out, shape (rows, tokens, hidden).

        Args:
            states: Of tokens.
            mask: True where a token may be attended to, at least once a row, shape (rows, tokens); None for
                everywhere.
            projected: What `projections` makes of the states, where that is known already.
        """
        attended = self._attend(self.projections(states) if projected is None else projected, mask)
        states = self.attention_norm(states + self.dropout(self.output(attended)))
        raised = self.dropout(functional.gelu(self.up(states)))
        lowered: Tensor = self.norm(states + self.dropout(self.down(raised)))
        return lowered

    def _attend(self, projected: Tensor, mask: Tensor | None) -> Tensor:
        rows, tokens, width = projected.shape
        split = projected.view(rows, tokens, 3, self.heads, width // 3 // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        if mask is None:
            # Holds no (tokens, tokens) matrix, so a document may have 10,000 sentences.
            attended = functional.scaled_dot_product_attention(query, key, value)
        else:
            # With a mask, the backward pass of the function above takes several times longer on a processor.
            weights = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
            weights = weights.masked_fill(~mask[:, None, None, :], -torch.inf)
            attended = weights.softmax(-1) @ value
        return attended.transpose(1, 2).reshape(rows, tokens, width // 3)


class LstmContext(nn.Module):
    """One bidirectional LSTM layer.

    All queries of a call look at the same sentences, so no sequence of a batch is shorter than another.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size // 2, batch_first=True, bidirectional=True)

    def forward(self, vectors: Tensor) -> Tensor:
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
        return cast(Tensor, self.layer(self.projection(vectors)))


def build_context(
    kind: DocumentContext, input_size: int, hidden_size: int, heads: int, dropout: float
) -> tuple[nn.Module, int]:
    """The context layer and its output width."""
    if kind == "lstm":
        return LstmContext(input_size, hidden_size), 2 * (hidden_size // 2)
    if kind == "transformer":
        return TransformerContext(input_size, hidden_size, heads, dropout), hidden_size
    return nn.Identity(), input_size


POSITION_FEATURES = 5


def position_features(sentences: int) -> Tensor:
    """Relative position, distances to both ends, first, last.

    Distances are `log(1 + d) / 5`, so that neighbours differ near an end and hardly in the middle, and 150
    sentences give 1.

    Returns:
        Shape (sentences, POSITION_FEATURES), float32. Of a single sentence, relative position is 0.
    """
    index = torch.arange(sentences, dtype=torch.float32)
    from_end = index.flip(0)
    relative = index / max(sentences - 1, 1)
    distances = [torch.log1p(index) / 5, torch.log1p(from_end) / 5]
    return torch.stack([relative, *distances, (index == 0).float(), (from_end == 0).float()], dim=1)


class Head(nn.Module):
    """Document context, dropout, then one linear unit on each sentence."""

    def __init__(self, config: ModelConfig, input_size: int, hidden_size: int, heads: int) -> None:
        super().__init__()
        self.context, width = build_context(config.context, input_size, hidden_size, heads, config.dropout)
        self.dropout = nn.Dropout(config.dropout)
        self.position = config.position
        self.linear = nn.Linear(width + (POSITION_FEATURES if config.position else 0), 1)

    def forward(self, vectors: Tensor) -> Tensor:
        """From shape (queries, sentences, input) to logits, shape (queries, sentences), float32."""
        vectors = self.dropout(self.context(vectors))
        if self.position:
            queries, sentences, _ = vectors.shape
            features = position_features(sentences).to(vectors)
            vectors = torch.cat([vectors, features.expand(queries, -1, -1)], dim=-1)
        logits: Tensor = self.linear(vectors).squeeze(-1)
        return logits.float()
