"""Models that think before they write: effort, room for thinking, and thinking apart from the reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

Effort = Literal["off", "minimal", "low", "medium", "high", "max"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)

HEADROOM: Mapping[Effort | None, int] = {
    "off": 0,
    "minimal": 4_096,
    "low": 4_096,
    "medium": 10_000,
    None: 10_000,
    "high": 16_000,
    "max": 32_000,
}
"""Tokens on top of the visible limit of a reply, by effort; None is the provider's own default."""

LEAST_WIDENED = 16_000
"""The lowest limit of a reply that is requested again after its thinking used up the first limit."""

EXPECTED_THINKING: Mapping[Effort | None, int] = {effort: tokens // 8 for effort, tokens in HEADROOM.items()}
"""Tokens of thinking that a dry run assumes for one reply, as nothing was measured yet."""

_OPEN, _CLOSE = "<think>", "</think>"


class Thought(NamedTuple):
    """A reply and the thinking before it."""

    text: str
    thinking: str


def split_thinking(text: str) -> Thought:
    """Separate a reply from thinking that a server without a reasoning parser leaves in the text.

    The reply begins after the last `</think>`; chat templates that open the tag leave no `<think>`. A tag
    that is opened and never closed is a reply that was cut off while thinking.
    """
    before, close, after = text.rpartition(_CLOSE)
    if close:
        return Thought(after.lstrip(), before.removeprefix(_OPEN).strip())
    if text.lstrip().startswith(_OPEN):
        return Thought("", text.lstrip().removeprefix(_OPEN).strip())
    return Thought(text, "")


def opens_thinking(prompt: str) -> bool:
    """Whether a prompt, as the chat template writes it, ends inside of thinking."""
    return _OPEN in prompt.rpartition(_CLOSE)[2]


def widened(limit: int) -> int:
    """The limit of a reply that is requested again because thinking used up `limit`."""
    return max(4 * limit, LEAST_WIDENED)
