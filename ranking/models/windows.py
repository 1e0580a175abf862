"""Which sentences of a long document the backbone reads together, and in which company each is judged."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple


class Window(NamedTuple):
    """Neighbouring sentences that are read together.

    Attributes:
        start: The first one.
        end: One past the last one.
        judged: Those whose score is taken from this window.
    """

    start: int
    end: int
    judged: range


def plan_windows(lengths: Sequence[int], room: int) -> list[Window]:
    """Cover a document by windows that overlap by about half.

    Every window is as full as whole sentences allow. A sentence is judged in the window that gives it the
    most context on its poorer side; where a window begins or ends with the document, that side lacks nothing.

    Args:
        lengths: Tokens of each sentence with what closes it, each at most `room`.
        room: Tokens of a window.

    Returns:
        Windows in the order of the document; each sentence is judged in exactly one of them. A window in
        which none would be judged is left out.
    """
    ends = [0, *accumulate(lengths)]
    spans = _spans(ends, room)
    choice = [_most_central(ends, spans, sentence) for sentence in range(len(lengths))]
    windows = []
    for number, (start, end) in enumerate(spans):
        judged = range(bisect_left(choice, number), bisect_right(choice, number))
        if judged:
            windows.append(Window(start, end, judged))
    return windows


def _spans(ends: Sequence[int], room: int) -> list[tuple[int, int]]:
    """First and one past the last sentence of each window; `ends[i]` tokens lie before sentence i."""
    last = len(ends) - 1
    spans: list[tuple[int, int]] = []
    start = 0
    while last and (not spans or spans[-1][1] < last):
        end = bisect_right(ends, ends[start] + room) - 1
        if end == last:
            start = bisect_left(ends, ends[last] - room)
        spans.append((start, end))
        half = bisect_left(ends, ends[start] + room // 2)
        # At least one sentence on, and never past the first one that was not read yet.
        start = min(max(half, start + 1), end)
    return spans


def _most_central(ends: Sequence[int], spans: Sequence[tuple[int, int]], sentence: int) -> int:
    """The window of a sentence; of equals, the first."""
    first = bisect_right(spans, sentence, key=lambda span: span[1])
    best, best_context = first, -1.0
    for number in range(first, len(spans)):
        start, end = spans[number]
        if start > sentence:
            break
        before = ends[sentence] - ends[start] if start else float("inf")
        after = ends[end] - ends[sentence + 1] if end < len(ends) - 1 else float("inf")
        if min(before, after) > best_context:
            best, best_context = number, min(before, after)
    return best
