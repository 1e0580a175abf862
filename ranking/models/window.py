"""WindowFusion: the query is read with as many whole neighbouring sentences as fit into the backbone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from ranking.models.backbone import Backbone, States, in_order
from ranking.models.config import ModelConfig
from ranking.models.head import Head
from ranking.models.model import TokenModel
from ranking.models.tokens import Row, TokenIds


class WindowFusion(TokenModel):
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


class Window(NamedTuple):
    """Neighbouring sentences that are read together.

    Attributes:
        start: The first one.
        end: One past the last one.
        judged: Those whose score is taken from this window.
    """

    start: int
    end: int
    judged: range


def plan_windows(lengths: Sequence[int], room: int) -> list[Window]:
    """Cover a document by windows that overlap by about half.

    Every window is as full as whole sentences allow. A sentence is judged in the window that gives it the
    most context on its poorer side; where a window begins or ends with the document, that side lacks nothing.

    Args:
        lengths: Tokens of each sentence with what closes it, each at most `room`.
        room: Tokens of a window.

    Returns:
        Windows in the order of the document; each sentence is judged in exactly one of them. A window in
        which none would be judged is left out.
    """
    ends = [0, *accumulate(lengths)]
    spans = _spans(ends, room)
    choice = [_most_central(ends, spans, sentence) for sentence in range(len(lengths))]
    windows = []
    for number, (start, end) in enumerate(spans):
        judged = range(bisect_left(choice, number), bisect_right(choice, number))
        if judged:
            windows.append(Window(start, end, judged))
    return windows


def _spans(ends: Sequence[int], room: int) -> list[tuple[int, int]]:
    """First and one past the last sentence of each window; `ends[i]` tokens lie before sentence i."""
    last = len(ends) - 1
    spans: list[tuple[int, int]] = []
    start = 0
    while last and (not spans or spans[-1][1] < last):
        end = bisect_right(ends, ends[start] + room) - 1
        if end == last:
            start = bisect_left(ends, ends[last] - room)
        spans.append((start, end))
        half = bisect_left(ends, ends[start] + room // 2)
        # At least one sentence on, and never past the first one that was not read yet.
        start = min(max(half, start + 1), end)
    return spans


def _most_central(ends: Sequence[int], spans: Sequence[tuple[int, int]], sentence: int) -> int:
    """The window of a sentence; of equals, the first."""
    first = bisect_right(spans, sentence, key=lambda span: span[1])
    best, best_context = first, -1.0
    for number in range(first, len(spans)):
        start, end = spans[number]
        if start > sentence:
            break
        before = ends[sentence] - ends[start] if start else float("inf")
        after = ends[end] - ends[sentence + 1] if end < len(ends) - 1 else float("inf")
        if min(before, after) > best_context:
            best, best_context = number, min(before, after)
    return best
