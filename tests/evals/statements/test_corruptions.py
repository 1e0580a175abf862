from __future__ import annotations

import pytest

from evals.statements.corruptions import corruptions, negated


@pytest.mark.parametrize(
    ("sentence", "kind", "kept"),
    [
        ("Ferritin was 84 ng/mL.", "number", "Ferritin was {} ng/mL."),
        ("Eleven stones were removed.", "number", "{} stones were removed."),
        ("The drain stays for six weeks.", "time", "The drain stays for {} weeks."),
        ("The drain was removed on day 9.", "time", "The drain was removed on day {}."),
        ("He took naproxen for pain.", "drug", "He took {} for pain."),
    ],
)
def test_only_the_detail_is_changed(sentence: str, kind: str, kept: str) -> None:
    changed = {str(name): text for name, text in corruptions(sentence).items()}[kind]
    before, after = kept.split("{}")
    assert changed.startswith(before) and changed.endswith(after) and changed != sentence


@pytest.mark.parametrize(
    ("sentence", "kind", "changed"),
    [
        ("The cyst is 31 mm wide.", "unit", "The cyst is 31 cm wide."),
        ("The left hip hurts.", "side", "The right hip hurts."),
        ("Left-sided weakness persists.", "side", "Right-sided weakness persists."),
        ("Heparin was begun.", "negation", "Heparin was not begun."),
        ("She had two falls.", "negation", "She did not have two falls."),
        ("He cannot drive.", "negation", "He can drive."),
        ("Salt should not be added.", "negation", "Salt should be added."),
        ("He healed without infection.", "negation", "He healed with infection."),
        ("Walk before the swim.", "time", "Walk after the swim."),
    ],
)
def test_one_detail_becomes_another(sentence: str, kind: str, changed: str) -> None:
    assert {str(name): text for name, text in corruptions(sentence).items()}[kind] == changed


def test_a_kind_without_a_detail_is_left_out() -> None:
    assert set(corruptions("She left on Friday, once able.")) <= {"negation"}
    assert negated("Good morning.") is None


def test_a_sentence_always_becomes_the_same() -> None:
    sentence = "After 7 days of doxycycline 100 mg the right knee was normal."
    assert corruptions(sentence) == corruptions(sentence)
    assert set(corruptions(sentence)) == {"number", "unit", "time", "drug", "side", "negation"}
