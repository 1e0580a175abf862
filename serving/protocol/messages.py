"""Messages to a model and its answers: turns of a conversation, and the answer to one sample."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
"""Maximum of one request: ten times the largest known context window."""


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
    """Answer to one sample. Seconds are for the whole request that the sample was part of.

    Attributes:
        text: The reply, without the thinking before it.
        output_tokens: All that the model wrote, thinking included.
        estimated: Whether its tokens are estimated, because the server's own counts cannot be used.
        thinking_tokens: Part of `output_tokens`.
        thinking: The text of it where the service returns that.
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
    thinking_tokens: int = 0
    thinking: str = ""

    @property
    def is_cut_off(self) -> bool:
        return self.finish_reason == "length"

    @property
    def is_unwritten(self) -> bool:
        """Whether the model was cut off before it wrote anything but thinking."""
        return self.is_cut_off and not self.text


def reply_details(answer: Answer) -> str:
    """The part of an answer that few replies have, as the journal stores it: JSON, empty for most.

    A list holds log-probabilities, an object those and the thinking.
    """
    if not answer.thinking_tokens and not answer.thinking:
        return json.dumps(answer.logprobs) if answer.logprobs else ""
    found = {name: getattr(answer, name) for name in ("logprobs", "thinking_tokens", "thinking")}
    return json.dumps({name: value for name, value in found.items() if value})


def read_details(text: str) -> dict[str, Any]:
    """The fields of an `Answer` from its `reply_details`."""
    stored = json.loads(text) if text else []
    details: dict[str, Any] = stored if isinstance(stored, dict) else {"logprobs": stored}
    details["logprobs"] = tuple(
        TokenLogprob(token, logprob, tuple((name, value) for name, value in top))
        for token, logprob, top in details.get("logprobs", ())
    )
    return details


def thinking_share(written: int, text: str, thinking: str) -> int:
    """How many of the tokens written are thinking, estimated from the lengths of both texts."""
    return -(-written * len(thinking) // (len(thinking) + len(text))) if thinking else 0


def with_counts(answers: Sequence[Answer], messages: Sequence[Message], max_tokens: int) -> list[Answer]:
    """Estimate what a server has not counted, by the upper estimate that a budget reserves, so that it holds.

    No tokenizer is asked: nothing may come between a reply that is paid for and the journal. Thinking that a
    service neither returns nor counts is not counted here either.

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
            text = len(answer.text) + len(answer.thinking)
            written = max_tokens if answer.is_cut_off else -(-text // _MIN_CHARACTERS_A_TOKEN)
        thought = answer.thinking_tokens
        if answer.thinking and thought <= 0:
            thought = thinking_share(written, answer.text, answer.thinking)
        counted.append(
            replace(
                answer,
                input_tokens=read,
                output_tokens=written,
                thinking_tokens=min(max(0, thought), written),
                cached_tokens=min(max(0, answer.cached_tokens), read),
                estimated=lost_read or lost_written,
            )
        )
    return counted
