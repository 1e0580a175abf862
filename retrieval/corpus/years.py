"""Documents by spans of years, few enough to be read at a glance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_WIDTHS = (1, 2, 5, 10, 20, 50, 100)
_MAX_YEARS = 16


class Span(NamedTuple):
    """A span of years, both ends included, and the documents in it."""

    first: int
    last: int
    documents: int


def spans(years: Mapping[int, int]) -> list[Span]:
    """Spans of equal width without a gap, ascending.

    Args:
        years: Documents by year.
    """
    if not years:
        return []
    width = next((width for width in _WIDTHS if _count(years, width) <= _MAX_YEARS), _WIDTHS[-1])
    first = min(years) // width * width
    found = [0] * _count(years, width)
    for year, documents in years.items():
        found[(year - first) // width] += documents
    return [
        Span(first + place * width, first + place * width + width - 1, documents)
        for place, documents in enumerate(found)
    ]


def _count(years: Mapping[int, int], width: int) -> int:
    return max(years) // width - min(years) // width + 1
