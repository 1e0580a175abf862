"""The ways to bring query and sentence together: early, mid and late fusion (Abridge 2025, section 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from ranking.encoding.encoders import Encoder
from ranking.models.backbone import Backbone, chunks, in_order, pool
from ranking.models.config import Fusion, ModelConfig
from ranking.models.head import Head, TransformerLayer
from ranking.models.model import EvidenceModel, TensorSource, TokenModel
from ranking.models.tokens import TokenIds


class EarlyFusion(TokenModel):
    """`[CLS] q [SEP] u [SEP]` through the backbone, pooled to one vector a pair, then the head.

    Without document context it is the plain cross-encoder (TAMU 2026, section 4.1.1).
    """

    def __init__(self, config: ModelConfig, backbone: Backbone) -> None:
        super().__init__()
        self.pooling = config.pooling
        self.backbone = backbone
        self.head = Head(config, backbone.hidden_size, backbone.hidden_size, backbone.heads)

    def score_together(self, source: Sequence[TokenIds], queries: Sequence[TokenIds]) -> Tensor:
        rows = [self.backbone.layout.two(query, sentence) for query in queries for sentence in source]
        vectors = self.backbone.pooled(rows, self.pooling)
        logits: Tensor = self.head(vectors.view(len(queries), len(source), -1))
        return logits


@dataclass(frozen=True, slots=True)
class LateSource(TensorSource):
    """Vectors of sentences, shape (sentences, hidden)."""

    vectors: Tensor

    def __len__(self) -> int:
        return len(self.vectors)

    def tensors(self) -> dict[str, Tensor]:
        return {"vectors": self.vectors}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        return cls(tensors["vectors"])

    @property
    def nbytes(self) -> int:
        return self.vectors.nbytes


class LateFusion(EvidenceModel[LateSource]):
    """`[r_q; r_i]`, the vectors of query and sentence, through document context to the head.

    Without document context the head is linear, and a linear function of `[r_q; r_i]` ranks the sentences of
    a document alike for every query: what the query adds is one constant for all of them. There the vectors'
    product and distance are appended: `[r_q; r_i; r_q * r_i; |r_q - r_i|]`. The paper, which always has a
    context, does not need this.
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
        return LateSource(self._vectors(sentences))

    def score_together(self, source: LateSource, queries: Sequence[TokenIds]) -> Tensor:
        asked = self._vectors(queries)[:, None].expand(-1, len(source.vectors), -1)
        known = source.vectors.expand(len(queries), -1, -1)
        parts = [asked, known]
        if self.interacts:
            parts += [asked * known, (asked - known).abs()]
        logits: Tensor = self.head(torch.cat(parts, dim=-1))
        return logits

    def _vectors(self, texts: Sequence[TokenIds]) -> Tensor:
        return self.backbone.pooled([self.backbone.layout.one(text) for text in texts], self.pooling)


@dataclass(slots=True)
class MidSource(TensorSource):
    """States of all tokens, one sentence after the other and nothing between them.

    Sentences are ordered longest first, so that sentences of similar length are neighbours.

    Attributes:
        states: Shape (tokens, hidden).
        lengths: Tokens of each sentence, in this order.
        rows: Index in the document of each sentence.
        projected: Attention projections of the states, shape (tokens, 3 hidden), once they were needed in
            evaluation mode. They follow from the states and are not stored.
    """

    states: Tensor
    lengths: tuple[int, ...]
    rows: tuple[int, ...]
    projected: Tensor | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.rows)

    def tensors(self) -> dict[str, Tensor]:
        layout = {"lengths": torch.tensor(self.lengths), "rows": torch.tensor(self.rows)}
        return {"states": self.states, **layout}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        lengths, rows = tensors["lengths"].tolist(), tensors["rows"].tolist()
        return cls(tensors["states"], tuple(lengths), tuple(rows))

    @property
    def nbytes(self) -> int:
        return 4 * self.states.nbytes


class MidFusion(EvidenceModel[MidSource]):
    """`[t_q; t_i]`, the token states of query and sentence, through one transformer layer and averaged.

    In the layer, the attention projections of the query's tokens are those of every sentence, so they are
    computed once; those of a sentence's tokens are those of every query, and are kept with the source.
    """

    source_type = MidSource

    def __init__(self, config: ModelConfig, backbone: Backbone) -> None:
        super().__init__()
        self.backbone = backbone
        self.layer = TransformerLayer(backbone.hidden_size, backbone.heads, config.dropout)
        self.head = Head(config, backbone.hidden_size, backbone.hidden_size, backbone.heads)

    def encode_source(self, sentences: Sequence[TokenIds]) -> MidSource:
        if not sentences:
            return MidSource(torch.zeros(0, self.backbone.hidden_size), (), ())
        layout = self.backbone.layout
        states, lengths, rows = [], [], []
        for batch in self.backbone([layout.one(sentence) for sentence in sentences]):
            states.append(batch.states.flatten(0, 1) if batch.mask is None else batch.states[batch.mask])
            lengths += batch.lengths
            rows += batch.rows
        return MidSource(torch.cat(states), tuple(lengths), tuple(rows))

    def score_together(self, source: MidSource, queries: Sequence[TokenIds]) -> Tensor:
        projected = self._projected(source)
        asked: list[Tensor] = [
            query for _, query in sorted(self._query_states(queries), key=lambda row: row[0])
        ]
        vectors = torch.stack([self._fuse(query, source, projected) for query in asked])
        logits: Tensor = self.head(vectors)
        return logits

    def _query_states(self, queries: Sequence[TokenIds]) -> Iterator[tuple[int, Tensor]]:
        """States of each query's tokens, shape (tokens, hidden), and which query it is."""
        for batch in self.backbone([self.backbone.layout.one(query) for query in queries]):
            for place, row in enumerate(batch.rows):
                yield row, batch.states[place, : batch.lengths[place]]

    def _projected(self, source: MidSource) -> Tensor:
        """Attention projections of the sentences' tokens, kept where no gradient has to flow through them."""
        if self.training or torch.is_grad_enabled():
            projected: Tensor = self.layer.projections(source.states)
            return projected
        if source.projected is None:
            source.projected = self.layer.projections(source.states)
        return source.projected

    def _fuse(self, query: Tensor, source: MidSource, projected: Tensor) -> Tensor:
        """One vector a sentence, in the order of the document, shape (sentences, hidden)."""
        query_projected = self.layer.projections(query)
        vectors = []
        for piece in _pieces(source, len(query), self.backbone.token_budget):
            mask = None
            if piece.mask is not None:
                mask = torch.cat([piece.mask.new_ones(len(piece.mask), len(query)), piece.mask], dim=1)
            fused = self.layer(
                _behind(query, source.states[piece.tokens], piece),
                mask,
                _behind(query_projected, projected[piece.tokens], piece),
            )
            vectors.append(pool(fused, mask, "mean"))
        return in_order(torch.cat(vectors), source.rows)


class _Piece(NamedTuple):
    """Neighbouring sentences of a source that are put through the layer together.

    Attributes:
        tokens: Positions of their tokens.
        shape: Sentences, and tokens of the longest.
        mask: True on tokens, of that shape; None when no sentence is padded.
    """

    tokens: slice
    shape: tuple[int, int]
    mask: Tensor | None


def _pieces(source: MidSource, query_tokens: int, token_budget: int) -> Iterator[_Piece]:
    start = 0
    # The longest come first, and a stable sort keeps this order.
    for group in chunks([query_tokens + length for length in source.lengths], token_budget):
        lengths = [source.lengths[place] for place in group]
        longest, end = lengths[0], start + sum(lengths)
        mask = None
        if lengths[-1] < longest:
            mask = (torch.arange(longest) < torch.tensor(lengths)[:, None]).to(source.states.device)
        yield _Piece(slice(start, end), (len(lengths), longest), mask)
        start = end


def _behind(query: Tensor, tokens: Tensor, piece: _Piece) -> Tensor:
    """The query's rows before those of each sentence, shape (sentences, query + longest, width)."""
    sentences, longest = piece.shape
    width = tokens.shape[-1]
    if piece.mask is None:
        padded = tokens.view(sentences, longest, width)
    else:
        padded = tokens.new_zeros(sentences, longest, width).masked_scatter(piece.mask[:, :, None], tokens)
    return torch.cat([query.expand(sentences, -1, -1), padded], dim=1)


def build_model(config: ModelConfig, encoder: Encoder) -> EvidenceModel[Any]:
    """Build the model; layers above the backbone are initialised at random.

    Seed torch before, for the same weights again. The backbone is the attribute `backbone` of every model;
    all other parameters are new.

    Raises:
        ValueError: The limits of the configuration exceed the backbone's positions.
    """
    backbone = Backbone(encoder)
    _check_limits(config, backbone)
    kinds: dict[Fusion, Callable[[ModelConfig, Backbone], EvidenceModel[Any]]] = {
        "early": EarlyFusion,
        "mid": MidFusion,
        "late": LateFusion,
    }
    return kinds[config.fusion](config, backbone)


def _check_limits(config: ModelConfig, backbone: Backbone) -> None:
    special = backbone.layout.pair_overhead
    longest = config.max_query_tokens + config.max_sentence_tokens + special
    if longest > backbone.max_positions:
        raise ValueError(
            f"max_query_tokens {config.max_query_tokens}, max_sentence_tokens {config.max_sentence_tokens}"
            f" and {special} special tokens are more than the {backbone.max_positions}"
            " positions of the encoder: lower one of them"
        )
