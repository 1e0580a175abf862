"""LateFusion: query and sentence meet after the backbone, as two vectors (Abridge 2025, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ranking.models.backbone import Backbone
from ranking.models.config import ModelConfig
from ranking.models.head import Head
from ranking.models.model import EvidenceModel, TokenIds
from ranking.models.sources import LateSource


class LateFusion(EvidenceModel[LateSource]):
    """`[r_q; r_i]`, the vectors of query and sentence, through document context to the head.

    Without document context the head is linear, and a linear function of `[r_q; r_i]` ranks the sentences of
    a document alike for every query: what the query adds is one constant for all of them. There the vectors'
    product and distance are appended: `[r_q; r_i; r_q * r_i; |r_q - r_i|]`. This is no part of the paper,
    which always has a context.
    """

    source_type = LateSource

    def __init__(self, config: ModelConfig, backbone: Backbone) -> None:
        super().__init__()
        self.pooling = config.pooling
        self.interacts = config.context == "none"
        self.backbone = backbone
        width = (4 if self.interacts else 2) * backbone.hidden_size
        self.head = Head(config, width, backbone.hidden_size, backbone.heads)

    def encode_source(self, sentences: Sequence[TokenIds]) -> LateSource:
        """One vector a sentence."""
        return LateSource(self._vectors(sentences))

    def sentence_count(self, source: LateSource) -> int:
        """Sentences of a source."""
        return len(source.vectors)

    def score_together(self, source: LateSource, queries: Sequence[TokenIds]) -> Tensor:
        """Logits, shape (queries, sentences), float32."""
        asked = self._vectors(queries)[:, None].expand(-1, len(source.vectors), -1)
        known = source.vectors.expand(len(queries), -1, -1)
        parts = [asked, known]
        if self.interacts:
            parts += [asked * known, (asked - known).abs()]
        logits: Tensor = self.head(torch.cat(parts, dim=-1))
        return logits

    def _vectors(self, texts: Sequence[TokenIds]) -> Tensor:
        return self.backbone.pooled([self.backbone.layout.one(text) for text in texts], self.pooling)
