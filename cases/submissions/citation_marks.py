"""Citations in forms that no scorer reads, found in the text of an answer. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Collection

_IDS = r"\s*\d{1,4}(?:\s*[-\u2013,;]\s*\d{1,4})*\s*"
_MARK = re.compile(rf"\|{_IDS}(?=\|)|\[{_IDS}\]|\({_IDS}\)")
_NUMBER = re.compile(r"\d+")


def find_marks(text: str, known: Collection[str] | None) -> list[str]:
    """Find `|1|`, `[1,2]`, `(3)` in a text, in its order.

    Args:
        text: An answer, or a sentence of one.
        known: Ids of the note's sentences. A number in parentheses that is none of them is taken for a year
            or a dose; without them every short one is taken for a citation.
    """
    found = []
    for match in _MARK.finditer(text):
        mark = match[0]
        numbers = _NUMBER.findall(mark)
        if mark.startswith("(") and known is not None and not set(numbers) <= set(known):
            continue
        found.append(f"{mark}|" if mark.startswith("|") else mark)
    return found
