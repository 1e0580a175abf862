"""Demonstrations are left out before a prompt overflows its context window; note sentences never are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nodes.core.failure import NodeFailure
from serving.client import ModelClient
from serving.messages import Message
from serving.model_name import Role


@dataclass(frozen=True, slots=True)
class Fitted:
    """A prompt that fits: its demonstrations in prompt order, and those that were left out."""

    messages: tuple[Message, ...]
    kept: list[str]
    dropped: list[str]


async def fit_prompt(
    client: ModelClient,
    role: Role,
    chosen: Sequence[str],
    render: Callable[[Sequence[str]], tuple[tuple[Message, ...], list[str]]],
    *,
    reply_tokens: int,
    later_tokens: int,
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
