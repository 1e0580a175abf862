"""The patient's message with its focus phrases marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cases.records import Phrase


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the message; `marked` where a focus phrase covers it."""

    text: str
    marked: bool


@dataclass(frozen=True, slots=True)
class MarkedText:
    """The whole message in order, and the phrases that were not found in it."""

    segments: list[Segment]
    unplaced: list[str]


def mark_phrases(narrative: str, phrases: Sequence[Phrase]) -> MarkedText:
    """Mark phrases at their start index, else where their text first occurs. They may overlap."""
    text = narrative.strip()
    spans: list[tuple[int, int]] = []
    unplaced: list[str] = []
    for phrase in phrases:
        words = phrase.text.strip()
        start = _place(text, words, phrase.start_char_index)
        if start < 0 or not words:
            unplaced.append(phrase.text)
        else:
            spans.append((start, start + len(words)))
    segments: list[Segment] = []
    done = 0
    for start, end in _merged(spans):
        segments.append(Segment(text[done:start], False))
        segments.append(Segment(text[start:end], True))
        done = end
    segments.append(Segment(text[done:], False))
    return MarkedText([one for one in segments if one.text], unplaced)


def _place(text: str, words: str, start: int | None) -> int:
    if start is not None and start >= 0 and text.startswith(words, start):
        return start
    return text.find(words)


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
