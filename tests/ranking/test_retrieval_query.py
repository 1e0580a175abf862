"""What a note is searched for."""

from __future__ import annotations

import pytest

from ranking.retrieval_query import QueryMode, retrieval_query


@pytest.mark.parametrize(
    ("mode", "query"),
    [
        ("patient", "Why was I given it?"),
        ("clinician", "Why heparin?"),
        ("both", "Patient Narrative: Why was I given it?\nClinician Question: Why heparin?"),
    ],
)
def test_a_query_is_made_of_what_is_asked(mode: QueryMode, query: str) -> None:
    assert retrieval_query("Why was\n I given it? ", "Why heparin?", mode) == query


@pytest.mark.parametrize("mode", ["patient", "clinician", "both"])
def test_one_part_stands_for_a_missing_one(mode: QueryMode) -> None:
    assert retrieval_query("", "Why heparin?", mode) == "Why heparin?"
    assert retrieval_query("Why?", "", mode) == "Why?"
