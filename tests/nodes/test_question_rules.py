from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.answer.answer_rules import AnswerSettings, find_faults
from nodes.question.interpret_question import bare_question, cut_question, find_question_faults
from serving.backends.scripted import ScriptedCall, made_up_reply


@pytest.mark.parametrize(
    ("reply", "question"),
    [
        (' "Why was heparin stopped?"\n', "Why was heparin stopped?"),
        ("“Why was heparin stopped?”", "Why was heparin stopped?"),
        ("Clinician's question: Why was heparin stopped?", "Why was heparin stopped?"),
        ("**Question:** Why was heparin stopped?", "Why was heparin stopped?"),
        ("The clinician question: 'Why?'", "Why?"),
        ("Questionable: why?", "Questionable: why?"),
        ("Why was the question: 'how?' asked", "Why was the question: 'how?' asked"),
    ],
)
def test_quotes_and_labels_around_a_question_are_no_part_of_it(reply: str, question: str) -> None:
    assert bare_question(reply) == question


@pytest.mark.parametrize(
    ("question", "faults"),
    [
        ("Why was heparin stopped?", []),
        ("Why was it stopped", []),
        ("a b c d e", ["it has 5 words and the limit is 4"]),
        ("", ["it is empty"]),
        (" \n ", ["it is empty"]),
        ("Here it is:\n\nWhy?", ["it has 2 lines and must be one line"]),
        ("a b c\nd e", ["it has 2 lines and must be one line", "it has 5 words and the limit is 4"]),
    ],
)
def test_faults_are_named(question: str, faults: list[str]) -> None:
    assert find_question_faults(question, 4) == faults


@pytest.mark.parametrize(
    ("question", "cut"),
    [
        ("Here is the question:\nWhy was it stopped?\nIt asks for a reason.", "Why was it stopped?"),
        ("Why was it, on that day, stopped?", "Why was it, on?"),
        ("Why was it on, that day?", "Why was it on?"),
        ("Question:\n'Why?'", "Why?"),
        ("no line asks\nhere", "no line asks"),
        ("a  b", "a b"),
        ("", ""),
    ],
)
def test_a_cut_question_is_the_line_that_asks(question: str, cut: str) -> None:
    assert cut_question(question, 4) == cut


@given(text=st.text(alphabet="ab ?\n\r\t\u2028'\"*:", max_size=60), limit=st.integers(1, 5))
def test_a_cut_question_keeps_the_rules_or_is_empty(text: str, limit: int) -> None:
    cut = cut_question(text, limit)
    assert cut == "" or find_question_faults(cut, limit) == []


def test_made_up_words_keep_the_rules_of_answers_and_of_questions() -> None:
    text = made_up_reply(ScriptedCall(prompt=[]))
    assert find_faults(text, AnswerSettings()) == find_question_faults(text, 15) == []
