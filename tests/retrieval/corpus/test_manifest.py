"""Documents by spans of years."""

from __future__ import annotations

from retrieval.corpus.manifest import Span, spans


def test_few_years_stand_alone() -> None:
    assert spans({2001: 2, 2003: 1}) == [Span(2001, 2001, 2), Span(2002, 2002, 0), Span(2003, 2003, 1)]


def test_many_years_are_put_together() -> None:
    found = spans({1781: 1, 1950: 4, 1999: 2, 2024: 9})
    assert len(found) <= 16
    assert sum(span.documents for span in found) == 16
    assert found[0].first <= 1781 <= found[0].last
    assert found[-1].first <= 2024 <= found[-1].last


def test_no_year_is_no_span() -> None:
    assert spans({}) == []
