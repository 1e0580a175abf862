"""How much goes into one request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

MOST_SPANS = 512
MOST_BYTES = 2_000_000
"""Of the spans of a request. Receivers have limits, some of four megabytes."""


def batches(encoded: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Encoded spans in lists of at most `MOST_SPANS` and `MOST_BYTES`; a larger span goes alone."""
    waiting: list[T] = []
    size = 0
    for one in encoded:
        added = size_of(one)
        if waiting and (len(waiting) == MOST_SPANS or size + added > MOST_BYTES):
            yield waiting
            waiting, size = [], 0
        waiting.append(one)
        size += added
    if waiting:
        yield waiting
