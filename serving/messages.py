"""What goes to a model and what comes back: turns of a conversation, and the answer to one sample."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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


UNKNOWN = -1
"""A number of tokens that a server does not report, or reports as something that no number of tokens is."""

_MAX_TOKENS = 100_000_000
"""Of one request: ten times the largest context window that we know."""


def token_count(reported: object) -> int:
    """The number of tokens that a server reports; `UNKNOWN` unless it is one.

    It is the server's word, and numbers of any size, signs, texts and NaN have been seen in its place.
    """
    if isinstance(reported, float) and reported.is_integer():
        reported = int(reported)
    if isinstance(reported, bool) or not isinstance(reported, int):
        return UNKNOWN
    return reported if 0 <= reported <= _MAX_TOKENS else UNKNOWN


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
    """What came back for one sample. Seconds are of the whole request that the sample was part of.

    Attributes:
        estimated: Whether its tokens are estimated, because the server's own counts cannot be used.
    """

    text: str
    finish_reason: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    seconds: float = 0.0
    retries: int = 0
    server: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    estimated: bool = False


def with_counts(answers: Sequence[Answer], messages: Sequence[Message], max_tokens: int) -> list[Answer]:
    """Estimate what a server has not counted, by the upper estimate that a budget reserves, so that it holds.

    No tokenizer is asked: nothing may come between a reply that is paid for and the journal. A model's hidden
    thoughts are in no text, so tokens of theirs that a server does not report are not counted.

    Args:
        answers: The samples of one request, with `UNKNOWN` where the server's count cannot be used.
        messages: What was sent. The prompt counts with the first sample.
        max_tokens: Limit of one reply, which one that was cut off has reached.
    """
    counted = []
    for index, answer in enumerate(answers):
        read, written = answer.input_tokens, answer.output_tokens
        # No prompt is empty, and no text is written with no token.
        lost_read = read == UNKNOWN or (index == 0 and read == 0)
        lost_written = written == UNKNOWN or (written == 0 and bool(answer.text.strip()))
        if lost_read:
            read = max_prompt_tokens(messages) if index == 0 else 0
        if lost_written:
            cut = answer.finish_reason == "length"
            written = max_tokens if cut else -(-len(answer.text) // _MIN_CHARACTERS_A_TOKEN)
        counted.append(
            replace(
                answer,
                input_tokens=read,
                output_tokens=written,
                cached_tokens=min(max(0, answer.cached_tokens), read),
                estimated=lost_read or lost_written,
            )
        )
    return counted
