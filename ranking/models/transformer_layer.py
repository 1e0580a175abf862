"""One post-norm transformer encoder layer whose attention projections can be computed ahead."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


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
