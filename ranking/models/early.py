"""EarlyFusion: query and sentence meet in the backbone, one pair at a time (Abridge 2025, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ranking.models.backbone import Backbone
from ranking.models.config import ModelConfig
from ranking.models.head import Head
from ranking.models.model import EvidenceModel, TokenIds


class EarlyFusion(EvidenceModel[Sequence[TokenIds]]):
    """`[CLS] q [SEP] u [SEP]` through the backbone, pooled to one vector a pair, then the head.

    Without document context it is the plain cross-encoder (TAMU 2026, section 4.1.1). Nothing is known of a
    document before its query, so its source is its token ids.
    """

    def __init__(self, config: ModelConfig, backbone: Backbone) -> None:
        super().__init__()
        self.pooling = config.pooling
        self.backbone = backbone
        self.head = Head(config, backbone.hidden_size, backbone.hidden_size, backbone.heads)

    def encode_source(self, sentences: Sequence[TokenIds]) -> Sequence[TokenIds]:
        """The sentences as they are."""
        return sentences

    def sentence_count(self, source: Sequence[TokenIds]) -> int:
        """Sentences of a source."""
        return len(source)

    def score_together(self, source: Sequence[TokenIds], queries: Sequence[TokenIds]) -> Tensor:
        """Logits, shape (queries, sentences), float32."""
        rows = [self.backbone.layout.two(query, sentence) for query in queries for sentence in source]
        vectors = self.backbone.pooled(rows, self.pooling)
        logits: Tensor = self.head(vectors.view(len(queries), len(source), -1))
        return logits
