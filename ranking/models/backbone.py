"""The encoder under every fusion type: rows of tokens in, states of tokens out, in batches."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ranking.encoding.encoders import Encoder
from ranking.models.config import Pooling
from ranking.models.tokens import Row, read_layout

TOKEN_BUDGET = 2048
"""Tokens of a batch. On two cores larger ones do not run faster; training holds them for the gradient."""


class States(NamedTuple):
    """States of a batch's tokens.

    Attributes:
        rows: Which rows of the input, in the order of the batch.
        states: Shape (rows, longest row, hidden).
        lengths: Tokens of each row.
        mask: True on tokens, shape (rows, longest row); None when no row is padded.
    """

    rows: list[int]
    states: Tensor
    lengths: list[int]
    mask: Tensor | None


class Backbone(nn.Module):
    """A transformers encoder that is given lists of token ids."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder.model
        self.layout = read_layout(encoder.tokenizer)
        self.hidden_size = encoder.hidden_size
        self.token_budget = TOKEN_BUDGET
        config = encoder.model.config
        self.heads = int(getattr(config, "num_attention_heads", 1))
        self.max_positions = _max_positions(config)
        self._takes_types = "token_type_ids" in inspect.signature(encoder.model.forward).parameters and (
            getattr(config, "type_vocab_size", 0) > 1
        )

    @property
    def device(self) -> torch.device:
        return next(self.encoder.parameters()).device

    def forward(self, rows: Sequence[Row]) -> Iterator[States]:
        """Run rows in batches of similar length; the batches come in another order than the rows."""
        for group in chunks([len(row.ids) for row in rows], self.token_budget):
            yield self._run([rows[index] for index in group], group)

    def pooled(self, rows: Sequence[Row], pooling: Pooling) -> Tensor:
        """One vector a row, in the order of the rows, shape (rows, hidden)."""
        if not rows:
            return torch.zeros(0, self.hidden_size, device=self.device)
        places, vectors = [], []
        for batch in self(rows):
            places += batch.rows
            vectors.append(pool(batch.states, batch.mask, pooling))
        return in_order(torch.cat(vectors), places)

    def _run(self, rows: Sequence[Row], indices: list[int]) -> States:
        lengths = [len(row.ids) for row in rows]
        longest = max(lengths)
        padded = min(lengths) < longest
        device = self.device
        inputs = {"input_ids": _matrix([row.ids for row in rows], longest, self.layout.pad, device)}
        if self._takes_types:
            inputs["token_type_ids"] = _matrix([row.types for row in rows], longest, 0, device)
        mask = None
        if padded:
            mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
            mask = mask.to(device)
            inputs["attention_mask"] = mask.long()
        return States(indices, self.encoder(**inputs).last_hidden_state, lengths, mask)


def in_order(values: Tensor, rows: Sequence[int]) -> Tensor:
    """Put values back where they came from: `values[i]` belongs to row `rows[i]`."""
    order = torch.tensor(rows)
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(len(rows))
    return values[inverse.to(values.device)]


def pool(states: Tensor, mask: Tensor | None, pooling: Pooling) -> Tensor:
    """From states of tokens, shape (rows, tokens, hidden), to one vector a row, shape (rows, hidden).

    The mask is true on tokens, shape (rows, tokens); None when all are.
    """
    if pooling == "cls":
        return states[:, 0]
    if mask is None:
        return states.mean(dim=1)
    # Not a product with the mask: a state of padding may be anything, and 0 times infinity is not 0.
    kept = states.masked_fill(~mask[:, :, None], 0)
    return kept.sum(dim=1) / mask.sum(dim=1, keepdim=True)


def _matrix(rows: Sequence[list[int]], width: int, fill: int, device: torch.device) -> Tensor:
    filled = [row if len(row) == width else row + [fill] * (width - len(row)) for row in rows]
    return torch.tensor(filled, device=device)


def _max_positions(config: object) -> int:
    positions = int(getattr(config, "max_position_embeddings", 512))
    # RoBERTa and its kin count positions from one past the padding's id.
    if getattr(config, "model_type", "") in {"roberta", "xlm-roberta", "camembert", "mpnet"}:
        positions -= int(getattr(config, "pad_token_id", 1)) + 1
    return positions


def chunks(lengths: Sequence[int], token_budget: int) -> list[list[int]]:
    """Group rows of similar length.

    Args:
        lengths: Tokens of each row.
        token_budget: Upper bound of rows times longest row in a group; a longer row is a separate group.

    Returns:
        Indices of rows, the longest rows first, each once.
    """
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    groups: list[list[int]] = []
    for row in order:
        if groups and (len(groups[-1]) + 1) * lengths[groups[-1][0]] <= token_budget:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups
