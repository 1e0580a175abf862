"""The sentences of a clinical note as it was typed: wrapped lines joined, lists and headings kept apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

_ITEM = re.compile(
    r"\s*(?:[-*+#\u2022\u2023\u25aa\u25cf\u25e6\u2013\u2014]|\(?\d{1,2}[.)]|\(?[a-z][.)])\s+(?=\S)"
)
"""What a list item begins with."""

_ENDS = (".", "!", "?", ":", ";")
_WIDEST = 200
"""Characters; longer lines were not wrapped by whoever typed them."""
_NARROWEST = 30
"""Characters; shorter lines are findings, and no lines of a wrapped text."""
_MOSTLY = 0.6
"""Share of full lines from which on a note counts as wrapped."""

_NEARLY = 0.8
"""Share of the width from which on a line of a wrapped note goes on: not all wrap as late as they can."""

_ABBREVIATIONS = frozenset(
    [
        *("approx.", "avg.", "max.", "min.", "est.", "prev.", "freq.", "incl.", "excl.", "cont.", "hosp."),
        *("temp.", "resp.", "wt.", "ht.", "abd.", "neuro.", "ext.", "plt.", "alk.", "bili.", "creat."),
        *("rx.", "tx.", "dx.", "hx.", "sx.", "inj.", "tab.", "tabs.", "cap.", "caps.", "susp.", "soln."),
    ]
)
"""Words whose full stop ends no sentence unless a capital follows, beyond those that sentencex knows."""


def note_sentences(note: str) -> list[str]:
    """Sentences of a note, in their order, each on one line.

    A line break inside a sentence becomes a space where the text was wrapped at a width. Elsewhere a line
    ends a sentence: notes list findings one a line, and neither those nor headings have a full stop. Lines
    without a letter or a digit, such as rules of dashes, are left out.
    """
    return [sentence for line in _unwrapped(note) for sentence in _split(line)]


def _unwrapped(note: str) -> Iterator[str]:
    """The lines of a note, wrapped ones joined."""
    lines = [line.expandtabs().rstrip() for line in note.splitlines()]
    width = max((len(line) for line in lines if len(line) <= _WIDEST), default=0)
    wrapped = _is_wrapped(lines, width)
    joined: list[str] = []
    last = begin = ""
    for line in lines:
        if joined and (_goes_on(last, line, width if wrapped else None) or _is_below(begin, line)):
            joined.append(line.strip())
        else:
            if joined:
                yield " ".join(joined)
            joined, begin = [line.strip()], line
        last = line
    if joined:
        yield " ".join(joined)


def _is_wrapped(lines: list[str], width: int) -> bool:
    """Whether most lines break where the next word would have gone over the width."""
    breaks = [
        _is_full(one, other, width)
        for one, other in pairwise(lines)
        if one.strip() and other.strip() and not _begins_anew(other)
    ]
    return len(breaks) > 1 and sum(breaks) >= _MOSTLY * len(breaks)


def _is_full(line: str, following: str, width: int) -> bool:
    return _NARROWEST <= len(line) <= width < len(line) + 1 + len(following.split(maxsplit=1)[0])


def _goes_on(line: str, following: str, width: int | None) -> bool:
    """Whether a line goes on in the following one.

    Args:
        line: Not stripped at its beginning.
        following: The next one.
        width: At which the note is wrapped; None where it is not.
    """
    if not line.strip() or not following.strip() or _begins_anew(following) or _is_heading(line):
        return False
    if following.strip()[0].islower() and _NARROWEST <= len(line) <= _WIDEST and not line.endswith(_ENDS):
        return True
    return width is not None and _NEARLY * width <= len(line) <= width


def _is_below(item: str, line: str) -> bool:
    """Whether a line stands indented under the list item that it belongs to."""
    indent = len(line) - len(line.lstrip())
    return (
        indent > len(item) - len(item.lstrip()) and _ITEM.match(item) is not None and not _begins_anew(line)
    )


def _begins_anew(line: str) -> bool:
    return _ITEM.match(line) is not None or _is_heading(line)


def _is_heading(line: str) -> bool:
    """Whether it is `PAST MEDICAL HISTORY` or `Hospital course:`."""
    text = line.strip()
    return text.endswith(":") or (text.isupper() and len(text) < _NARROWEST)


def _split(line: str) -> Iterator[str]:
    """Sentences of one line; the sign of a list item stays with its first."""
    import sentencex

    sign = _ITEM.match(line)
    found: list[str] = []
    for piece in map(str.strip, sentencex.segment("en", line[sign.end() if sign else 0 :])):
        if found and _is_open(found[-1], piece):
            found[-1] = f"{found[-1]} {piece}"
        else:
            found.append(piece)
    for number, sentence in enumerate(found):
        if any(character.isalnum() for character in sentence):
            yield f"{sign[0].strip()} {sentence}" if sign and number == 0 else sentence


def _is_open(sentence: str, following: str) -> bool:
    """Whether a full stop belongs to an abbreviation: `drank approx. | 3 L`, `Est. | GFR 30`."""
    word = sentence.rpartition(" ")[2].lower()
    return word in _ABBREVIATIONS and (word == sentence.lower() or not following[:1].isupper())
