"""Texts to token ids, cut to a limit, and which ones were cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranking.models.model import TokenIds

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class Tokenized:
    """Token ids of texts.

    Attributes:
        ids: Of each text, without special tokens, at least one and at most the limit.
        cut: Positions of the texts that were longer than the limit.
    """

    ids: tuple[TokenIds, ...]
    cut: tuple[int, ...]


def tokenize(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], limit: int) -> Tokenized:
    """Read texts as tokens.

    A text without any token, an empty one say, becomes the unknown token: every sentence keeps its place.

    Args:
        tokenizer: Of the model's backbone.
        texts: Sentences or queries.
        limit: Tokens kept of a text, special tokens not counted.
    """
    if not texts:
        return Tokenized((), ())
    # `verbose` would warn of texts beyond the model's positions, which are cut here.
    encoded = tokenizer(
        list(texts),
        add_special_tokens=False,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,
    )
    found: list[list[int]] = encoded["input_ids"]
    return Tokenized(
        ids=tuple(ids[:limit] or [_filler(tokenizer)] for ids in found),
        cut=tuple(position for position, ids in enumerate(found) if len(ids) > limit),
    )


def _filler(tokenizer: PreTrainedTokenizerBase) -> int:
    for token in (tokenizer.unk_token_id, tokenizer.sep_token_id, tokenizer.eos_token_id):
        if isinstance(token, int):
            return token
    return 0
