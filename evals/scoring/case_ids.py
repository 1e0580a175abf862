"""Ids and ranges of ids, as the official scorers take them: `121-167 5`."""

from __future__ import annotations

import re

from evals.scoring.matching import ScoringError

_RANGE = re.compile(r"(\d+)-(\d+)")
_MOST = 1_000_000


def parse_case_ids(text: str) -> frozenset[str]:
    """Read ids parted by commas or blanks; `a-b` of whole numbers is a range with both ends in it.

    Raises:
        ScoringError: It names no case, or a range is not one.
    """
    ids: set[str] = set()
    for part in text.replace(",", " ").split():
        bounds = _RANGE.fullmatch(part)
        if bounds is None:
            ids.add(part)
            continue
        first, last = int(bounds[1]), int(bounds[2])
        if not 0 <= last - first < _MOST:
            raise ScoringError(f"--case-ids: {part!r} is not a range; write the smaller id first")
        ids |= {str(number) for number in range(first, last + 1)}
    if not ids:
        raise ScoringError("--case-ids names no case; write ids and ranges such as 1-20,35")
    return frozenset(ids)
