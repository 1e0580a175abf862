"""Free text to sentences."""

from __future__ import annotations

from ranking.split import split_sentences


def test_a_line_with_two_sentences_is_two() -> None:
    assert split_sentences("Fever is gone. Go home.\n") == ["Fever is gone.", "Go home."]


def test_a_line_break_ends_a_sentence() -> None:
    assert split_sentences("Plan\r\n- aspirin\n\n- rest") == ["Plan", "- aspirin", "- rest"]


def test_abbreviations_end_nothing() -> None:
    assert split_sentences("Pt. takes 5 mg b.i.d. for pain.") == ["Pt. takes 5 mg b.i.d. for pain."]


def test_lines_without_a_letter_or_digit_are_left_out() -> None:
    assert split_sentences("----\n \u2028***\né\n") == ["é"]
