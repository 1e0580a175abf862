"""Keys and values of the rows that are being decoded."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache

_SLOTS_STEP = 256
_ROWS_STEP = 4


class KeyValueRows(Cache):
    """One buffer for all rows, where a token's slot is its position.

    The caches of transformers grow by concatenation, which copies every row at every step, and keep rows of
    different length apart by padding. Here a row starts at slot 0 and is written in place; what lies past
    its length is never looked at, so chunks of different length need no bookkeeping.
    """

    def __init__(self, config: PreTrainedConfig, dtype: torch.dtype, device: torch.device) -> None:
        # The layers of transformers' own caches are not used: `update` is all that a model calls.
        super().__init__(layers=[])
        heads = config.num_key_value_heads
        dimension = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._store = torch.zeros(
            (config.num_hidden_layers, 2, 0, 0, heads, dimension), dtype=dtype, device=device
        )
        self._first = 0
        self._positions = torch.zeros((0, 0), dtype=torch.long, device=device)
        self._rows = torch.zeros((0, 1), dtype=torch.long, device=device)
        self._slots = 0

    @property
    def bytes_per_token(self) -> int:
        """Memory of one token of one row."""
        layers, pair, _, _, heads, dimension = self._store.shape
        return layers * pair * heads * dimension * self._store.element_size()

    def reserve(self, rows: int, slots: int) -> None:
        """Make room. Growing copies, so it goes in steps."""
        layers, pair, has_rows, has_slots, heads, dimension = self._store.shape
        if rows <= has_rows and slots <= has_slots:
            return
        slots = max(has_slots, -(-slots // _SLOTS_STEP) * _SLOTS_STEP)
        rows = max(has_rows, -(-rows // _ROWS_STEP) * _ROWS_STEP)
        # Zeros, not empty memory: a masked slot still takes part in a product, and NaN * 0 is NaN.
        grown = self._store.new_zeros((layers, pair, rows, slots, heads, dimension))
        grown[:, :, :has_rows, :has_slots] = self._store
        self._store = grown

    def aim(self, first: int, positions: Tensor, slots: int) -> None:
        """Set where the next forward pass writes.

        Args:
            first: Row of the buffer that the first row of the pass stands in.
            positions: Position of each token, shape (rows, tokens).
            slots: Slots that the pass has to see.
        """
        self._first, self._positions, self._slots = first, positions, slots
        self._rows = torch.arange(first, first + len(positions), device=positions.device)[:, None]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write one layer's new keys and values, and return what the rows of the pass see."""
        keys, values = self._store[layer_idx]
        keys[self._rows, self._positions] = key_states.transpose(1, 2)
        values[self._rows, self._positions] = value_states.transpose(1, 2)
        seen = slice(self._first, self._first + len(self._rows))
        return (
            keys[seen, : self._slots].transpose(1, 2),
            values[seen, : self._slots].transpose(1, 2),
        )

    def read(self, row: int, start: int, end: int) -> Tensor:
        """A copy of a stretch of a row."""
        return self._store[:, :, row, start:end].clone()

    def write(self, row: int, stretch: Tensor) -> None:
        """Fill the start of a row."""
        self._store[:, :, row, : stretch.shape[2]] = stretch

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the start of a row to another row."""
        self._store[:, :, target, :length] = self._store[:, :, source, :length]
