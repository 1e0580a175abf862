from __future__ import annotations

import pytest

from ranking.retrieval_query import Part, QueryMode, retrieval_query

BOTH = "Patient Narrative: I fell.\nClinician Question: Why?"


@pytest.mark.parametrize(
    ("mode", "patient", "clinician", "text", "parts"),
    [
        ("both", "I fell.", "Why?", BOTH, ("patient", "clinician")),
        ("patient", "I fell.", "Why?", "I fell.", ("patient",)),
        ("clinician", "I fell.", "Why?", "Why?", ("clinician",)),
        ("both", "I fell.", " ", "I fell.", ("patient",)),
        ("both", "", "Why?", "Why?", ("clinician",)),
        ("patient", "", "Why?", "Why?", ("clinician",)),
        ("clinician", "I fell.", "", "I fell.", ("patient",)),
        ("both", "", "", "", ()),
    ],
)
def test_a_query_is_made_of_what_there_is(
    mode: QueryMode, patient: str, clinician: str, text: str, parts: tuple[Part, ...]
) -> None:
    assert retrieval_query(mode, patient, clinician) == (text, parts)


def test_the_parts_are_prepared_and_the_words_between_them_are_not() -> None:
    found = retrieval_query("both", "I FELL", "WHY", str.lower)
    assert found.text == "Patient Narrative: i fell\nClinician Question: why"


def test_braces_of_a_case_are_data() -> None:
    assert retrieval_query("both", "{clinician}", "{0}").text.endswith(": {0}")
    assert "Narrative: {clinician}" in retrieval_query("both", "{clinician}", "{0}").text
