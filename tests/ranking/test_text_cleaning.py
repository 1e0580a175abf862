"""Texts as they are embedded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.text_cleaning import clean_for_retrieval


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("Took  3.5 mg\n of Lasix.", "took 35 mg of lasix"),
        (r"BP\t120/80\r", "bp12080"),
        ('"Chest pain" \u2013 he\u2019s OK', "chest pain hes ok"),
        ("", ""),
        ("血液  检查", "血液 检查"),
        ("---", "---"),
    ],
)
def test_a_text_is_cleaned(text: str, cleaned: str) -> None:
    assert clean_for_retrieval(text) == cleaned


@given(st.text(max_size=30))
def test_what_is_clean_stays(text: str) -> None:
    once = clean_for_retrieval(text)
    assert clean_for_retrieval(once) == once
