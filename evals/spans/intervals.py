"""When a call was made: a trace knows how long it took and in which node, but not when it began."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Interval = tuple[int, int]
"""Begin and end, in nanoseconds since 1970."""


def nanoseconds(seconds: float) -> int:
    """Seconds as nanoseconds, whole microseconds of them: of a time since 1970 a float holds no more."""
    return round(seconds * 1e6) * 1000


def call_intervals(calls: Sequence[dict[str, Any]], node: Interval) -> list[Interval]:
    """Where each call is put within its node's interval.

    Calls of one sample follow each other, as a correction follows the reply that it corrects, and the last
    of them ends with the node. Calls of different samples stand side by side. A replayed call took no time:
    it is a point. None begins before its node does.
    """
    begin, end = node
    left = {_conversation(call): end for call in calls}
    placed: list[Interval] = []
    for call in reversed(calls):
        until = left[_conversation(call)]
        length = 0 if call.get("replayed") else nanoseconds(call["seconds"])
        start = max(begin, until - length)
        left[_conversation(call)] = start
        placed.append((start, until))
    return placed[::-1]


def _conversation(call: dict[str, Any]) -> tuple[str, int]:
    return call["role"], call["sample"]
