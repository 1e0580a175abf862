"""The seam of all fusion types: a document is encoded for any query, then scored for some."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from ranking.models.backbone import Backbone
    from ranking.models.head import Head
    from ranking.models.sources import TensorSource

TokenIds = Sequence[int]
"""Of one text, without special tokens."""

SourceT = TypeVar("SourceT")

_SENTENCES = 4096
"""Sentences, times queries, whose vectors are held at a time: many queries of a long document fit."""


class EvidenceModel(nn.Module, ABC, Generic[SourceT]):
    """Scores the sentences of one document for its queries.

    `SourceT` is what is known of a document before any query: token ids where query and sentence meet in
    the backbone, token states (`mid`) or sentence vectors (`late`) where they meet after it. It can be cached
    in evaluation mode; logits from a cached source equal those from a fresh one.

    Attributes:
        backbone: Pretrained; of all weights outside it, none is.
        head: Document context and classifier.
        source_type: What a source is, where it is more than token ids and so worth to be cached.
    """

    source_type: ClassVar[type[TensorSource] | None] = None

    backbone: Backbone
    head: Head

    @abstractmethod
    def encode_source(self, sentences: Sequence[TokenIds]) -> SourceT:
        """All that does not depend on the query."""

    @abstractmethod
    def sentence_count(self, source: SourceT) -> int:
        """Sentences of a source."""

    @abstractmethod
    def score_together(self, source: SourceT, queries: Sequence[TokenIds]) -> Tensor:
        """As `score`, for one or more queries whose vectors fit into memory together."""

    def score(self, source: SourceT, queries: Sequence[TokenIds]) -> Tensor:
        """Logits, shape (queries, sentences), float32."""
        sentences = self.sentence_count(source)
        if not sentences or not queries:
            return torch.zeros(len(queries), sentences)
        together = max(1, _SENTENCES // sentences)
        groups = [queries[start : start + together] for start in range(0, len(queries), together)]
        return torch.cat([self.score_together(source, group) for group in groups])

    def forward(self, sentences: Sequence[TokenIds], queries: Sequence[TokenIds]) -> Tensor:
        """Logits of a document's queries, shape (queries, sentences), float32."""
        return self.score(self.encode_source(sentences), queries)
