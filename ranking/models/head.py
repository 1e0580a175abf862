"""From the vectors of a document's sentences to their logits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ranking.models.config import ModelConfig
from ranking.models.document_context import build_context
from ranking.models.positions import POSITION_FEATURES, position_features


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
