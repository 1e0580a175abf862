"""Statements on things that the record says were not done."""

from __future__ import annotations

import pytest

from cases.records import Sentence
from nodes.verification.text_checks import check_text

NOTE = [
    Sentence("1", "A CT of the chest was considered but was not done because she improved."),
    Sentence("2", "Chest radiograph showed a consolidation."),
    Sentence("3", "Amoxicillin was not prescribed because of the hives."),
    Sentence("4", "MRI of the brain could not be performed."),
    Sentence("5", "Heparin was not given on the first day."),
    Sentence("6", "From the second day he had heparin 5,000 units."),
    Sentence("7", "He was told that the plan which we made last week with his wife was not started."),
]


@pytest.mark.parametrize(
    ("statement", "deciding"),
    [
        ("The CT of the chest showed a consolidation.", ["1"]),
        ("The CT of the chest showed a consolidation without effusion.", ["1"]),
        ("No CT of the chest was done.", []),
        ("Amoxicillin was prescribed at discharge.", ["3"]),
        ("MRI of the brain was normal.", ["4"]),
        ("A CT of the chest was not done.", []),
        ("Chest radiograph showed a consolidation.", []),
        ("He had heparin 5,000 units from the second day.", []),
        ("He was told of the plan.", []),
    ],
)
def test_a_thing_that_was_not_done_denies_its_result(statement: str, deciding: list[str]) -> None:
    found = check_text(statement, (), NOTE)
    assert sorted({id_ for fault in found for id_ in fault["sentence_ids"]}) == deciding
    assert all(fault["contradicts"] for fault in found)
