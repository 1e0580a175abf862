"""The seam of all fusion types: a document is encoded for any query, then scored for some."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from torch import Tensor, nn

if TYPE_CHECKING:
    from ranking.models.backbone import Backbone
    from ranking.models.head import Head

TokenIds = Sequence[int]
"""Of one text, without special tokens."""

SourceT = TypeVar("SourceT")


class EvidenceModel(nn.Module, ABC, Generic[SourceT]):
    """Scores the sentences of one document for its queries.

    `SourceT` is what is known of a document before any query: token ids where query and sentence meet in
    the backbone, token states (`mid`) or sentence vectors (`late`) where they meet after it. It can be cached
    in evaluation mode; logits from a cached source equal those from a fresh one.

    Attributes:
        backbone: Pretrained; of all weights outside it, none is.
        head: Document context and classifier.
    """

    backbone: Backbone
    head: Head

    @abstractmethod
    def encode_source(self, sentences: Sequence[TokenIds]) -> SourceT:
        """All that does not depend on the query."""

    @abstractmethod
    def score(self, source: SourceT, queries: Sequence[TokenIds]) -> Tensor:
        """Logits, shape (queries, sentences), float32."""

    def forward(self, sentences: Sequence[TokenIds], queries: Sequence[TokenIds]) -> Tensor:
        """Logits of a document's queries, shape (queries, sentences), float32."""
        return self.score(self.encode_source(sentences), queries)
