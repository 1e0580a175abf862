"""How many tokens a request can take at most, without asking a tokenizer: for rates and budgets."""

from __future__ import annotations

from collections.abc import Sequence

from serving.backends.backend import CallParameters
from serving.messages import Message

_LEAST_CHARACTERS_A_TOKEN = 3
"""Fewer than English text has in any tokenizer that we know, so that the estimate is on the safe side."""

_TOKENS_A_TURN = 8


def most_prompt_tokens(messages: Sequence[Message]) -> int:
    """About the most tokens of a prompt."""
    return sum(len(message.text) // _LEAST_CHARACTERS_A_TOKEN + _TOKENS_A_TURN for message in messages)


def most_reply_tokens(call: CallParameters) -> int:
    """The most tokens of all samples together."""
    return call.max_tokens * len(call.samples)
