"""MidFusion: the tokens of query and sentence meet in one layer after the backbone (Abridge 2025, 3.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ranking.models.backbone import Backbone, in_order, pool
from ranking.models.chunks import chunks
from ranking.models.config import ModelConfig
from ranking.models.head import Head
from ranking.models.model import EvidenceModel, TokenIds
from ranking.models.sources import MidSource
from ranking.models.transformer_layer import TransformerLayer


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
        """The states of all tokens, special tokens among them."""
        if not sentences:
            return MidSource(torch.zeros(0, self.backbone.hidden_size), (), ())
        layout = self.backbone.layout
        states, lengths, rows = [], [], []
        for batch in self.backbone([layout.one(sentence) for sentence in sentences]):
            states.append(batch.states.flatten(0, 1) if batch.mask is None else batch.states[batch.mask])
            lengths += batch.lengths
            rows += batch.rows
        return MidSource(torch.cat(states), tuple(lengths), tuple(rows))

    def sentence_count(self, source: MidSource) -> int:
        """Sentences of a source."""
        return len(source.rows)

    def score_together(self, source: MidSource, queries: Sequence[TokenIds]) -> Tensor:
        """Logits, shape (queries, sentences), float32."""
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
        tokens: Where their tokens lie.
        shape: Sentences, and tokens of the longest.
        mask: True on tokens, of that shape; None when no sentence is padded.
    """

    tokens: slice
    shape: tuple[int, int]
    mask: Tensor | None


def _pieces(source: MidSource, query_tokens: int, token_budget: int) -> Iterator[_Piece]:
    start = 0
    # The longest lie first, and a stable sort leaves them so.
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
