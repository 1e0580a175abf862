"""How many votes a recipe wants: a number, or a range such as `3..9`."""

from __future__ import annotations

import re

MOST_VOTES = 101
_RANGE = re.compile(r"(\d{1,9})(?:\.\.(\d{1,9}))?", re.ASCII)


def read_votes(value: object) -> int | str:
    """A number, or a range as text; a range of one number is that number.

    Raises:
        ValueError: It is neither, or out of bounds.
    """
    first, most = vote_bounds(value)
    return most if first == most else f"{first}..{most}"


def vote_bounds(value: object) -> tuple[int, int]:
    """The votes asked for first, and at most.

    Raises:
        ValueError: It is neither a number nor a range, or out of bounds.
    """
    match = None
    if isinstance(value, int | str) and not isinstance(value, bool):
        match = _RANGE.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"{value!r} is neither a number of votes, such as 5, nor a range, such as 3..9")
    first = int(match[1])
    most = int(match[2] or first)
    if first > most:
        raise ValueError(f"the range {first}..{most} runs backwards; write {most}..{first}")
    if not 1 <= first <= most <= MOST_VOTES:
        raise ValueError(f"votes go from 1 to {MOST_VOTES}, not {value}")
    return first, most
