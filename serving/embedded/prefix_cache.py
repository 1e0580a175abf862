"""Keys and values of earlier prompts and replies, cached for prompts that begin alike."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b

import torch
from torch import Tensor

BLOCK = 16
"""Tokens in a block. A shared prefix is found to a multiple of this."""


class PrefixCache:
    """Blocks of tokens, each known by everything before it.

    Votes of one case share their prompt's blocks, and a follow-up turn finds prompt and reply of its
    conversation; memory holds each block once. The block used longest ago goes first.
    """

    def __init__(self, max_tokens: int) -> None:
        self._max_blocks = max_tokens // BLOCK
        self._blocks: OrderedDict[bytes, Tensor] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks) * BLOCK

    def match(self, tokens: Sequence[int]) -> int:
        """Length of the known prefix. At least the last token is left over: its logits are wanted."""
        known = 0
        for key in _keys(tokens[:-1]):
            if key not in self._blocks:
                break
            known += BLOCK
        return known

    def load(self, tokens: Sequence[int], length: int) -> Tensor:
        """Keys and values of a prefix that `match` found, shape (layers, 2, length, heads, dimension)."""
        keys = list(_keys(tokens[:length]))
        found = torch.cat([self._blocks[key] for key in keys], dim=2)
        self._touch(keys)
        return found

    def add(self, tokens: Sequence[int], read: Callable[[int, int], Tensor]) -> None:
        """Keep the whole blocks of a sequence.

        Args:
            tokens: Tokens whose keys and values are computed.
            read: Gives keys and values of the tokens from a start to an end; asked for new blocks only.
        """
        keys = list(_keys(tokens))[: self._max_blocks]
        for index, key in enumerate(keys):
            if key not in self._blocks:
                self._blocks[key] = read(index * BLOCK, (index + 1) * BLOCK)
        self._touch(keys)
        while len(self._blocks) > self._max_blocks:
            self._blocks.popitem(last=False)

    def _touch(self, keys: Sequence[bytes]) -> None:
        # Last block first, so that the end of a sequence is dropped before its beginning: a block whose
        # beginning is gone can never be found again.
        for key in reversed(keys):
            self._blocks.move_to_end(key)


def _keys(tokens: Sequence[int]) -> Iterator[bytes]:
    key = b""
    for start in range(0, len(tokens) - BLOCK + 1, BLOCK):
        block = b"".join(token.to_bytes(4, "little") for token in tokens[start : start + BLOCK])
        key = blake2b(key + block, digest_size=16).digest()
        yield key
