"""WindowFusion: the query is read with as many whole neighbouring sentences as fit into the backbone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ranking.models.backbone import Backbone, States, in_order
from ranking.models.config import ModelConfig
from ranking.models.head import Head
from ranking.models.layout import Row
from ranking.models.model import EvidenceModel, TokenIds
from ranking.models.windows import plan_windows


class WindowFusion(EvidenceModel[Sequence[TokenIds]]):
    """`[CLS] q [SEP] u_1 [SEP] u_2 [SEP] ...`: sentences see the query and each other in every layer.

    It is in none of the papers. EarlyFusion shows a sentence to the query alone, so "it fell to 90 percent"
    can only be understood after the backbone; here the neighbours are at hand. A query of a short document is
    also one row of tokens instead of one a sentence, with the query's tokens once.

    A sentence's vector is the mean of its tokens' states and those that close it; with pooling `cls`, the
    state of its last closing token. Longer documents are read in overlapping windows. A sentence that is
    longer than a window is cut.
    """

    def __init__(self, config: ModelConfig, backbone: Backbone) -> None:
        super().__init__()
        self.pooling = config.pooling
        self.backbone = backbone
        self.window_tokens = min(config.max_window_tokens, backbone.max_positions)
        self.head = Head(config, backbone.hidden_size, backbone.hidden_size, backbone.heads)

    def encode_source(self, sentences: Sequence[TokenIds]) -> Sequence[TokenIds]:
        """The sentences as they are."""
        return sentences

    def sentence_count(self, source: Sequence[TokenIds]) -> int:
        """Sentences of a source."""
        return len(source)

    def score_together(self, source: Sequence[TokenIds], queries: Sequence[TokenIds]) -> Tensor:
        """Logits, shape (queries, sentences), float32."""
        rows = [row for number, query in enumerate(queries) for row in self._rows(number, query, source)]
        vectors, places = [], []
        for batch in self.backbone([row.row for row in rows]):
            spans = [rows[index].spans for index in batch.rows]
            vectors.append(self._pool(batch, spans))
            places += [rows[index].first + n for index in batch.rows for n in range(len(rows[index].spans))]
        ordered = in_order(torch.cat(vectors), places)
        logits: Tensor = self.head(ordered.view(len(queries), len(source), -1))
        return logits

    def _rows(self, number: int, query: TokenIds, source: Sequence[TokenIds]) -> list[_WindowRow]:
        """The windows of a query; `number` counts queries."""
        layout = self.backbone.layout
        before = len(layout.pair[0]) + len(query) + len(layout.pair[1])
        closing = len(layout.pair[2])
        room = self.window_tokens - before
        sentences = [sentence[: room - closing] for sentence in source]
        found = []
        for window in plan_windows([len(sentence) + closing for sentence in sentences], room):
            read = sentences[window.start : window.end]
            spans, end = [], before
            for place, sentence in enumerate(read, window.start):
                start, end = end, end + len(sentence) + closing
                if place in window.judged:
                    spans.append((start, end))
            first = number * len(source) + window.judged.start
            found.append(_WindowRow(layout.many(query, read), spans, first))
        return found

    def _pool(self, batch: States, spans: Sequence[Sequence[tuple[int, int]]]) -> Tensor:
        """One vector for each span of each row, in that order, shape (spans, hidden)."""
        _, width, hidden = batch.states.shape
        states = batch.states.reshape(-1, hidden)
        flat = [
            (place * width + start, place * width + end)
            for place, row in enumerate(spans)
            for start, end in row
        ]
        if self.pooling == "cls":
            return states[torch.tensor([end - 1 for _, end in flat], device=states.device)]
        tokens = torch.cat([torch.arange(start, end) for start, end in flat]).to(states.device)
        lengths = torch.tensor([end - start for start, end in flat], device=states.device)
        owners = torch.repeat_interleave(torch.arange(len(flat), device=states.device), lengths)
        sums = states.new_zeros(len(flat), hidden).index_add(0, owners, states[tokens])
        return sums / lengths[:, None]


class _WindowRow(NamedTuple):
    """One input of the backbone.

    Attributes:
        row: Query and sentences.
        spans: First and one past the last token of each judged sentence.
        first: Place of the first judged sentence, counted through all queries.
    """

    row: Row
    spans: list[tuple[int, int]]
    first: int
