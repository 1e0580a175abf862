"""Which of several servers gets a conversation: the one that most likely holds its prefix in its cache.

Rendezvous hashing over the beginning of the conversation sends cases with the same demonstrations to the
same server, and changes little when a server goes or comes. Loads are bounded, as in consistent hashing
with bounded loads (Mirrokni et al. 2018): a beginning that many cases share must not fill one server.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

from serving.messages import Message

_PREFIX_TURNS = 2
"""The system turn, and the first demonstration or else the case itself; follow-up turns leave both."""

_SLACK = 1.25
"""Most conversations of a server, as a multiple of the mean."""


def prefix_of(messages: Sequence[Message]) -> str:
    """Names the beginning that follow-ups of a conversation, and cases like it, share."""
    digest = hashlib.sha256()
    for message in messages[:_PREFIX_TURNS]:
        digest.update(message.text.encode(errors="replace") + b"\0")
    return digest.hexdigest()


def choose(prefix: str, loads: Mapping[str, int]) -> str:
    """The address for a new conversation.

    Args:
        prefix: Names its beginning.
        loads: Conversations of each address that may be chosen, at least one.
    """
    bound = math.ceil(_SLACK * (sum(loads.values()) + 1) / len(loads))
    ranked = sorted(loads, key=lambda address: _weight(prefix, address), reverse=True)
    return next(address for address in ranked if loads[address] < bound)


def _weight(prefix: str, address: str) -> bytes:
    return hashlib.sha256(f"{prefix} {address}".encode()).digest()
