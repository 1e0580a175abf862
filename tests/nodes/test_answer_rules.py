from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.answer.answer_rules import AnswerSettings, find_faults, shorten, split_sentences, strip_citations

RULES = AnswerSettings()
LONG = " ".join(["word"] * 75)
PROSE = st.lists(
    st.sampled_from(
        ["Pt.", "b.i.d.", "2.5", "mg", "word.", "word", "Why?", ",", ";", "...", "(4", "\n\n", "É", "—"]
    )
    | st.text(min_size=1, max_size=6),
    min_size=1,
    max_size=120,
).map(" ".join)


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("He had surgery |1,2|.", "He had surgery."),
        ("He had surgery. |1, 2|", "He had surgery."),
        ("He had surgery [3] and left.", "He had surgery and left."),
        ("He had surgery [1, 2][3-5].", "He had surgery."),
        ("He had surgery (4).", "He had surgery."),
        ("He had surgery (4, 5).", "He had surgery."),
        ("He had surgery |1||2|.", "He had surgery."),
        ("He had surgery |patient narrative|.", "He had surgery."),
    ],
)
def test_citations_are_stripped(text: str, stripped: str) -> None:
    assert strip_citations(text) == stripped


@pytest.mark.parametrize(
    "text", ["He took it (4 mg) daily.", "BP 120/80 [stable].", "Either a | b.", "T4 (low)."]
)
def test_what_is_no_citation_is_kept(text: str) -> None:
    assert strip_citations(text) == text


@pytest.mark.parametrize("text", ["Pt. was given 2.5 mg b.i.d.", "Dr. Lee saw her at 5 p.m. on the ward."])
def test_clinical_abbreviations_end_no_sentence(text: str) -> None:
    assert split_sentences(text) == [text]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("One here. Two here.", []),
        (" ", ["it is empty"]),
        ("One here.", ["it has 1 sentence and needs 2 to 4"]),
        ("One. Two. Three. Four. Five.", ["it has 5 sentences and needs 2 to 4"]),
        (f"One here. {LONG}.", ["it has 77 words and the limit is 75"]),
        (f"{LONG} end.", ["it has 76 words and the limit is 75", "it has 1 sentence and needs 2 to 4"]),
    ],
)
def test_faults_are_told_in_words(text: str, faults: list[str]) -> None:
    assert find_faults(text, RULES) == faults


def test_exactly_the_limit_is_no_fault() -> None:
    assert find_faults("One here. " + " ".join(["Word"] * 72) + " end.", RULES) == []


def test_trailing_sentences_are_dropped_first() -> None:
    assert shorten(f"One here. Two here. {LONG}.", RULES) == "One here. Two here."


def test_a_single_long_sentence_is_cut_by_words() -> None:
    cut = shorten(f"{LONG[:-4]}last, and more words.", RULES)
    assert len(cut.split()) == 75
    assert cut.endswith("last.")


def test_a_short_answer_stays_as_it_is() -> None:
    assert shorten("One here.", RULES) == "One here."


@given(text=PROSE.filter(str.strip), limit=st.integers(1, 80), sentences=st.integers(2, 4))
def test_a_shortened_answer_keeps_its_limits_and_is_never_empty(
    text: str, limit: int, sentences: int
) -> None:
    shortened = shorten(text, AnswerSettings(max_words=limit, max_sentences=sentences))
    assert 1 <= len(shortened.split()) <= limit


@given(text=PROSE)
def test_stripping_twice_is_stripping_once_for_prose_without_citations(text: str) -> None:
    once = strip_citations(text)
    assert len(once.split()) <= len(text.split())
