"""What goes to a model and what comes back: turns of a conversation, and the answer to one sample."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

_MIN_CHARACTERS_A_TOKEN = 3
"""Fewer than English text has in any tokenizer that we know, so that the estimate is on the safe side."""

_TOKENS_A_TURN = 8


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation; `role` is system, user or assistant."""

    role: str
    text: str


def max_prompt_tokens(messages: Iterable[Message]) -> int:
    """An upper estimate of a prompt's tokens without a tokenizer, for rates and budgets."""
    return sum(len(message.text) // _MIN_CHARACTERS_A_TOKEN + _TOKENS_A_TURN for message in messages)


class TokenLogprob(NamedTuple):
    """One token of a reply as the model saw it.

    Attributes:
        token: Its text; the texts of all tokens together are the reply.
        logprob: Natural logarithm of its probability.
        top: The likeliest tokens at its place with theirs; it may itself be among them.
    """

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


def weighed(shares: Mapping[str, float]) -> TokenLogprob:
    """A token that is one of several choices, from their probabilities; those of 0 are left out."""
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    top = tuple((choice, math.log(share)) for choice, share in ranked if share > 0)
    return TokenLogprob(*top[0], top)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one sample. Seconds are of the whole request that the sample was part of."""

    text: str
    finish_reason: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    seconds: float = 0.0
    retries: int = 0
    server: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
