"""Texts as tokens: cut to a limit, and with special tokens where the backbone's own tokenizer sets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


TokenIds = Sequence[int]
"""Token ids of one text, without special tokens."""


class Row(NamedTuple):
    """One input of the backbone: token ids and segment ids, both as long."""

    ids: list[int]
    types: list[int]


@dataclass(frozen=True, slots=True)
class Layout:
    """`before q between u after`, each part with its segment.

    BERT writes `[CLS] q [SEP] u [SEP]` with segments 0 and 1, RoBERTa `<s> q </s></s> u </s>` with none.

    Attributes:
        single: Tokens before and after one text.
        pair: Tokens before, between and after two texts.
        pair_types: Segments of two texts; the tokens before and between belong to the first.
    """

    single: tuple[TokenIds, TokenIds]
    pair: tuple[TokenIds, TokenIds, TokenIds]
    single_type: int
    pair_types: tuple[int, int]
    pad: int

    def one(self, text: TokenIds) -> Row:
        before, after = self.single
        ids = [*before, *text, *after]
        return Row(ids, [self.single_type] * len(ids))

    def two(self, first: TokenIds, second: TokenIds) -> Row:
        before, between, after = self.pair
        head, tail = [*before, *first, *between], [*second, *after]
        return Row(head + tail, [self.pair_types[0]] * len(head) + [self.pair_types[1]] * len(tail))

    @property
    def pair_overhead(self) -> int:
        return sum(map(len, self.pair))


def read_layout(tokenizer: PreTrainedTokenizerBase) -> Layout:
    """Infer the layout from the tokenization of short texts.

    Raises:
        ValueError: It puts special tokens where a layout has no place for them.
    """
    one = _parts(tokenizer, "a")
    two = _parts(tokenizer, "a", "a")
    pad = tokenizer.pad_token_id
    return Layout(
        single=(one.special[0], one.special[1]),
        pair=(two.special[0], two.special[1], two.special[2]),
        single_type=one.types[0],
        pair_types=(two.types[0], two.types[1]),
        pad=int(pad) if isinstance(pad, int) else 0,
    )


class _Parts(NamedTuple):
    special: list[list[int]]
    types: list[int]


def _parts(tokenizer: PreTrainedTokenizerBase, *texts: str) -> _Parts:
    """Special tokens before, between and after texts, and each text's segment."""
    plain = tokenizer(texts[0], add_special_tokens=False)["input_ids"]
    encoded = tokenizer(*texts, return_token_type_ids=True)
    ids: list[int] = encoded["input_ids"]
    types: list[int] = encoded.get("token_type_ids") or [0] * len(ids)
    special: list[list[int]] = [[]]
    segments: list[int] = []
    position = 0
    while position < len(ids):
        if len(segments) < len(texts) and ids[position : position + len(plain)] == plain:
            segments.append(types[position])
            special.append([])
            position += len(plain)
        else:
            special[-1].append(ids[position])
            position += 1
    if len(segments) != len(texts):
        raise ValueError(f"{type(tokenizer).__name__} puts texts together in a way that is not supported")
    return _Parts(special, segments)


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
    """
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
