"""How emulated models think: for how long, and how much of the reply a limit leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.serving.batches.emulators.replies import digest, words

RUMINATION = "hm"
"""The one word of all thinking."""

MOST_TOKENS = 20_000
"""Of one train of thought; a request in eight needs none."""


@dataclass(frozen=True)
class Written:
    """What a model has written when it stops; words are its tokens.

    Attributes:
        thinking: Tokens of thinking.
        text: The reply, as far as the limit let it go.
        cut: Whether the limit ended it.
    """

    thinking: int
    text: str
    cut: bool

    @property
    def tokens(self) -> int:
        return self.thinking + words(self.text)


def thought(body: Any, sample: int) -> int:
    """Tokens of thinking about a sample, drawn from a hash of the request."""
    drawn = int(digest([body, sample])[:12], 16)
    return 0 if drawn % 8 == 0 else drawn // 8 % (MOST_TOKENS + 1)


def within(limit: int | None, text: str, thinking: int) -> Written:
    """Thinking and a reply, cut off at a limit that counts both."""
    if limit is None or thinking + words(text) <= limit:
        return Written(thinking, text, False)
    if thinking >= limit:
        return Written(limit, "", True)
    return Written(thinking, " ".join(text.split()[: limit - thinking]), True)


def ruminations(tokens: int) -> str:
    return " ".join([RUMINATION] * tokens)
