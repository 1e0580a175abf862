from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nodes.answer.answer_rules import AnswerRules
from nodes.citing.citations import (
    CitedSentence,
    keep_within,
    read_citations,
    word_count,
    write_citations,
)

SHOWN = ("1", "2", "3", "a-7", "note 4")


@pytest.mark.parametrize(
    ("written", "ours"),
    [
        ("He had surgery |1|.", "He had surgery. |1|"),
        ("He had surgery. |1, 3|", "He had surgery. |1, 3|"),
        ("He had surgery |patient narrative|.", "He had surgery."),
        ("He had surgery |2,x|.", "He had surgery. |2|"),
        ("No citation here", "No citation here."),
        ("A |1| and B |2|.", "A and B. |1, 2|"),
        ("Two |1||2|.", "Two. |1, 2|"),
    ],
)
def test_a_sentence_is_put_in_order(written: str, ours: str) -> None:
    assert write_citations(read_citations(written, SHOWN).sentences) == ours


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("He fell |1|. He rose |2|.", [("1",), ("2",)]),
        ("He fell. |1| He rose. |2|", [("1",), ("2",)]),
        ("He fell. |1|. He rose.", [("1",), ()]),
        ("- He fell.\n|1|\n- He rose. |2|", [("1",), ("2",)]),
        ("|1| He fell. He rose.", [("1",), ()]),
        ("He fell. |3, 1,1| He rose. |2;1| |2|", [("1", "3"), ("1", "2")]),
        ("He fell. |1 2|", [("1", "2")]),
        ("Ok. |1| Ok. |2|", [("1",), ("2",)]),
        ("He took it b.i.d. |1| and rose. |2|", [("1", "2")]),
        ("He fell. | 1 , 2 |", [("1", "2")]),
        ("He fell. |note 4, a-7|", [("a-7", "note 4")]),
    ],
)
def test_a_citation_belongs_to_the_sentence_that_it_stands_in_or_behind(
    text: str, cited: list[tuple[str, ...]]
) -> None:
    assert [sentence.cited for sentence in read_citations(text, SHOWN).sentences] == cited


@pytest.mark.parametrize(("blanks", "cited"), [(199, ["1"]), (200, [])])
def test_pipes_far_apart_are_text(blanks: int, cited: list[str]) -> None:
    assert sorted(read_citations(f"He fell |{' ' * blanks}1|.", SHOWN).cited) == cited


def test_what_was_not_shown_is_dropped_and_named() -> None:
    read = read_citations("He fell |9, 1|. He rose |8|.", SHOWN)
    assert (sorted(read.cited), read.unknown, read.malformed) == (["1"], ("9", "8"), 0)


@pytest.mark.parametrize(
    ("text", "malformed"),
    [
        ("He fell. |the note|", 1),
        ("He fell. ||", 1),
        ("He fell [1, 2].", 1),
        ("He fell. |1| He rose. |2", 1),
        ("He fell. |1|", 0),
    ],
)
def test_a_citation_that_names_nothing_is_taken_out_and_counted(text: str, malformed: int) -> None:
    read = read_citations(text, SHOWN)
    assert read.malformed == malformed
    assert not set("|[]") & set(read.text)


def test_pipes_of_the_text_itself_are_no_citations() -> None:
    read = read_citations("Na 140 | K 4.0 | Cl 100 were normal. |2|", SHOWN)
    assert read.sentences == (CitedSentence("Na 140 / K 4.0 / Cl 100 were normal.", ("2",)),)


@pytest.mark.parametrize("text", ["", "   \n", "|1|", "|1|.", "- \n-", "..."])
def test_an_answer_without_words_has_no_sentences(text: str) -> None:
    assert read_citations(text, SHOWN).sentences == ()


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("He fell. He", False),
        ("He fell. He rose |1|", True),
        ("He fell. He rose.", True),
        ("He fell |9| \n", True),
        ("He fell ||", False),
    ],
)
def test_the_end_of_a_whole_sentence_is_a_full_stop_or_a_citation(text: str, whole: bool) -> None:
    assert read_citations(text, SHOWN).sentences[-1].whole is whole


def test_abbreviations_end_no_sentence() -> None:
    read = read_citations("Pt. took aspirin 81 mg b.i.d. with food |1|.", SHOWN)
    assert len(read.sentences) == 1


LIMITS = AnswerRules(max_words=10, max_sentences=9)


def sentences(*words: int, cited: tuple[str, ...] = ("1", "2")) -> list[CitedSentence]:
    return [CitedSentence(" ".join(["w"] * count) + ".", cited) for count in words]


@pytest.mark.parametrize(
    ("words", "count_citations", "kept"),
    [([5, 5], False, 2), ([5, 6], False, 1), ([5, 5], True, 1), ([4, 4], False, 2), ([3, 3], True, 2)],
)
def test_the_limit_keeps_whole_sentences_with_their_citations(
    words: list[int], count_citations: bool, kept: int
) -> None:
    found = keep_within(sentences(*words), LIMITS, count_citations=count_citations)
    assert found == sentences(*words)[:kept]


def test_the_first_overflow_ends_the_answer() -> None:
    assert keep_within(sentences(4, 9, 1), LIMITS, count_citations=False) == sentences(4)


def test_a_last_sentence_that_is_not_whole_is_left_out() -> None:
    cut = CitedSentence("It ends.", (), whole=False)
    assert keep_within([*sentences(4), cut], LIMITS, count_citations=False) == sentences(4)
    assert keep_within([cut], LIMITS, count_citations=False) == [cut]


def test_a_single_sentence_is_cut_by_words_and_keeps_its_citations() -> None:
    (found,) = keep_within(sentences(12), LIMITS, count_citations=True)
    assert (word_count([found], count_citations=True), found.cited) == (10, ("1", "2"))
    assert found.text.endswith(".")


def test_sentences_over_their_number_are_left_out() -> None:
    assert len(keep_within(sentences(1, 1, 1), AnswerRules(max_sentences=2), count_citations=False)) == 2


PIECES = st.sampled_from(
    [
        *("He fell", "Pt. took 3.5 mg", " b.i.d.", "and rose", ". ", ".", "!", "\n", "- ", " ", '"', "[1]"),
        *("|1|", "|2, 1|", "|9|", "|x|", "||", "|", "| ", " |3", "|note 4|", "|a-7;1|", "(2)", "é", "5"),
    ]
)


@given(st.lists(PIECES, max_size=14).map("".join))
@example("Pt\nHe fell. |1|")
@example("[[1]2] He fell")
def test_only_what_was_shown_is_cited_and_a_second_reading_changes_nothing(text: str) -> None:
    read = read_citations(text, SHOWN)
    assert read.cited <= set(SHOWN)
    for one in read.sentences:
        assert list(one.cited) == sorted(set(one.cited), key=SHOWN.index)
    again = read_citations(write_citations(read.sentences), SHOWN)
    assert [(one.text, one.cited) for one in again.sentences] == [
        (one.text, one.cited) for one in read.sentences
    ]


@given(st.text(alphabet="|1, 2.x\n-[]()ab", max_size=60))
def test_no_text_is_too_odd_to_be_read(text: str) -> None:
    assert read_citations(text, SHOWN).cited <= set(SHOWN)
