"""Prompts that fit the context window: demonstrations, or retrieved sentences, are left out of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nodes.core.failure import NodeFailure
from serving.protocol.messages import Message
from serving.protocol.model_name import Role
from serving.requests.client import ModelClient


@dataclass(frozen=True, slots=True)
class Fitted:
    """A prompt that fits: its demonstrations in prompt order, and those that were left out."""

    messages: tuple[Message, ...]
    kept: list[str]
    dropped: list[str]

    @property
    def facts(self) -> dict[str, Any]:
        return {"demonstrations": self.kept, "dropped_demonstrations": self.dropped}

    @property
    def flags(self) -> list[str]:
        return ["dropped_demonstrations"] if self.dropped else []


async def fit_prompt(
    client: ModelClient,
    role: Role,
    chosen: Sequence[str],
    render: Callable[[Sequence[str]], tuple[tuple[Message, ...], list[str]]],
    *,
    reply_tokens: int,
    later_tokens: int = 0,
) -> Fitted:
    """Leave out demonstrations, the last chosen first, until prompt and replies fit.

    Args:
        client: Knows the context window, or not; then everything is kept.
        role: Whose window it is.
        chosen: Ids of the demonstrations, the most useful first.
        render: Ids to the messages and the ids in prompt order.
        reply_tokens: Room that the reply itself needs.
        later_tokens: Room for later turns of the conversation; it is given up when nothing else helps.

    Raises:
        NodeFailure: The case alone does not fit.
    """
    for count in range(len(chosen), -1, -1):
        messages, kept = render(chosen[:count])
        needed = reply_tokens + (later_tokens if count else 0)
        room = await client.room(role, messages, needed)
        if room is None or room >= needed:
            return Fitted(messages, kept, list(chosen[count:]))
    raise NodeFailure(
        "context_length",
        f"the case alone is {reply_tokens - (room or 0)} tokens longer than the context window"
        f" of {client.backends[role].name}",
    )


async def demand_room(
    client: ModelClient, role: Role, messages: tuple[Message, ...], reply_tokens: int
) -> None:
    """Go on only with a prompt that fits, of which nothing can be left out.

    Raises:
        NodeFailure: It leaves no room for its reply.
    """
    await fit_prompt(client, role, (), lambda _: (messages, []), reply_tokens=reply_tokens)


SLACK_TOKENS = 100
"""Left free, as in the released code of heiDS: token counts of chat templates are not always exact."""


@dataclass(frozen=True, slots=True)
class FittedSentences:
    """A prompt that fits: the ids that it shows, the best first, and how many were left out."""

    messages: tuple[Message, ...]
    shown: list[str]
    dropped: int


async def fit_sentences(
    client: ModelClient,
    role: Role,
    found: Sequence[str],
    render: Callable[[Sequence[str]], tuple[Message, ...]],
    *,
    reply_tokens: int,
    later_tokens: int,
    what: str = "sentence of its note",
) -> FittedSentences:
    """Show as many as fit, in their order, by halving: the tokenizer counts a dozen prompts at most.

    Args:
        client: Knows the context window, or not; then everything is shown.
        role: Whose window it is.
        found: Ids of sentences, the best first; at least one.
        render: Ids to the messages.
        reply_tokens: Room that the reply itself needs.
        later_tokens: Room for later turns of the conversation; given up if not even one sentence fits.
        what: Name of the results, for messages.

    Raises:
        NodeFailure: The case does not fit with a single sentence.
    """
    for needed in dict.fromkeys((reply_tokens + later_tokens + SLACK_TOKENS, reply_tokens)):
        count = await _most(client, role, found, render, needed)
        if count:
            return FittedSentences(render(found[:count]), list(found[:count]), len(found) - count)
    raise NodeFailure(
        "context_length",
        f"the case is longer than the context window of {client.backends[role].name}, even with one {what}"
        " alone",
    )


async def _most(
    client: ModelClient,
    role: Role,
    found: Sequence[str],
    render: Callable[[Sequence[str]], tuple[Message, ...]],
    needed: int,
) -> int:
    """The largest number of sentences that leaves room, 0 where none does."""

    async def fits(count: int) -> bool:
        room = await client.room(role, render(found[:count]), needed)
        return room is None or room >= needed

    if await fits(len(found)):
        return len(found)
    low, high = 0, len(found)
    while high - low > 1:
        middle = (low + high) // 2
        if await fits(middle):
            low = middle
        else:
            high = middle
    return low
