"""Common interface of all fusion types: encode a document for any query, then score it for some."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Sized
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor, nn

from ranking.models.tokens import TokenIds

if TYPE_CHECKING:
    from ranking.models.backbone import Backbone
    from ranking.models.head import Head


class TensorSource(ABC):
    """An encoded document that consists of tensors."""

    @abstractmethod
    def __len__(self) -> int:
        """Sentences in it."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]: ...

    @classmethod
    @abstractmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """The way back.

        Raises:
            KeyError: A tensor is missing.
        """

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory that it takes once it is in use."""


SourceT = TypeVar("SourceT", bound=Sized)

_SENTENCES = 4096
"""Sentences, times queries, whose vectors are held at a time: many queries of a long document fit."""


class EvidenceModel(nn.Module, ABC, Generic[SourceT]):
    """Scores the sentences of one document for its queries.

    `SourceT` represents a document before any query: token ids where query and sentence meet in
    the backbone, token states (`mid`) or sentence vectors (`late`) where they meet after it. It can be cached
    in evaluation mode; logits from a cached source equal those from a fresh one.

    Attributes:
        backbone: Pretrained; of all weights outside it, none is.
        head: Document context and classifier.
        source_type: Type of a source, if it is more than token ids and so worth caching.
    """

    source_type: ClassVar[type[TensorSource] | None] = None

    backbone: Backbone
    head: Head

    @abstractmethod
    def encode_source(self, sentences: Sequence[TokenIds]) -> SourceT:
        """All that does not depend on the query."""

    @abstractmethod
    def score_together(self, source: SourceT, queries: Sequence[TokenIds]) -> Tensor:
        """As `score`, for one or more queries whose vectors fit into memory together."""

    def score(self, source: SourceT, queries: Sequence[TokenIds]) -> Tensor:
        """Logits, shape (queries, sentences), float32."""
        sentences = len(source)
        if not sentences or not queries:
            return torch.zeros(len(queries), sentences)
        together = max(1, _SENTENCES // sentences)
        groups = [queries[start : start + together] for start in range(0, len(queries), together)]
        return torch.cat([self.score_together(source, group) for group in groups])

    def forward(self, sentences: Sequence[TokenIds], queries: Sequence[TokenIds]) -> Tensor:
        return self.score(self.encode_source(sentences), queries)


class TokenModel(EvidenceModel[Sequence[TokenIds]]):
    """An evidence model that knows nothing of a document before its query: its source is its token ids."""

    def encode_source(self, sentences: Sequence[TokenIds]) -> Sequence[TokenIds]:
        return sentences
