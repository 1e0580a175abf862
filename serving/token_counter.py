"""How long prompts and replies are: by a model's own tokenizer, or estimated where nobody can say."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from serving.errors import CallError
from serving.messages import Message

CHARACTERS_A_TOKEN = 4
"""Of English text, for an estimate."""

_REMEMBERED = 4096
_MOST_FAILURES = 3

# One token in every tokenizer that we know.
_WORD = "a"
_ASKED = Message("user", _WORD)


class Count(NamedTuple):
    """Tokens of a text; not `exact` where they are estimated by its length."""

    tokens: int
    exact: bool


class TokenCounter:
    """Counts with a backend's tokenizer, each conversation once."""

    def __init__(self, count_tokens: Callable[[Sequence[Message]], Awaitable[int]] | None) -> None:
        """Without a tokenizer, or once it has failed several times, everything is estimated."""
        self._count_tokens = count_tokens
        self._known: OrderedDict[bytes, int] = OrderedDict()
        self._failures = 0

    async def exactly(self, messages: Sequence[Message]) -> int:
        """Tokens of a conversation, up to where the model goes on.

        Raises:
            CallError: There is no tokenizer, or it does not answer.
        """
        if self._count_tokens is None or self._failures >= _MOST_FAILURES:
            raise CallError("internal", "no tokenizer counts for this model")
        key = hashlib.sha256(json.dumps([(one.role, one.text) for one in messages]).encode()).digest()
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        try:
            tokens = await self._count_tokens(messages)
        except CallError:
            self._failures += 1
            raise
        self._known[key] = tokens
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return tokens

    async def conversation(self, messages: Sequence[Message]) -> Count:
        """Tokens of a prompt."""
        try:
            return Count(await self.exactly(messages), exact=True)
        except CallError:
            return Count(_estimate("".join(message.text for message in messages)), exact=False)

    async def reply(self, text: str) -> Count:
        """Tokens that a model writes to say a text, with the one that ends its turn."""
        try:
            bare = await self.exactly([_ASKED])
            shortest = await self.exactly(_said(_WORD))
            whole = await self.exactly(_said(text))
        except CallError:
            return Count(_estimate(text), exact=False)
        # A template without marks between turns has no token for their end either.
        end = 1 if shortest > bare + 2 else 0
        return Count(whole - shortest + 1 + end, exact=True)


def _said(text: str) -> tuple[Message, ...]:
    """A text as a model's turn. Another one follows it, as some templates want the user's at the end."""
    return (_ASKED, Message("assistant", text), _ASKED)


def _estimate(text: str) -> int:
    return -(-len(text) // CHARACTERS_A_TOKEN)
