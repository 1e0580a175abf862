from __future__ import annotations

import json
from typing import Any

import pytest

from cases.biomedical import QuestionType
from nodes.answer.exact_reply import Exact, ExactSettings, exact_reply, normalise
from serving.protocol.errors import InvalidReply
from tests.nodes.biomedical_builders import says


def parsed(type_: QuestionType, text: str) -> Exact:
    return exact_reply(type_).parse(text)


def rescued(type_: QuestionType, text: str) -> Exact:
    rescue = exact_reply(type_).fallback
    assert rescue is not None
    return rescue(text)


@pytest.mark.parametrize(
    ("said", "answer"),
    [("yes", "yes"), ("No.", "no"), ("No, although yes was said", "no"), (True, "yes"), (False, "no")],
)
def test_the_first_yes_or_no_counts(said: Any, answer: str) -> None:
    assert parsed("yesno", json.dumps({"answer": said})) == answer


@pytest.mark.parametrize("said", ["maybe", "", "noble yesterday", None, 1, ["yes"]])
def test_neither_yes_nor_no_is_a_fault_that_can_be_quoted(said: Any) -> None:
    with pytest.raises(InvalidReply, match="'answer' must be yes or no"):
        parsed("yesno", json.dumps({"answer": said}))


def test_a_reply_in_words_is_read_only_after_the_correction() -> None:
    with pytest.raises(InvalidReply, match="no JSON object"):
        parsed("yesno", "Yes, it does.")
    assert rescued("yesno", "Yes, it does.") == "yes"


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("- aspirin", "aspirin"),
        ("\u2022  aspirin", "aspirin"),
        ("12) aspirin", "aspirin"),
        ("(3) aspirin", "aspirin"),
        ("1. - aspirin", "aspirin"),
        ("a) aspirin", "aspirin"),
        ('"aspirin"', "aspirin"),
        ("\u201caspirin\u201d", "aspirin"),
        ("'aspirin'", "aspirin"),
        ('aspirin"', "aspirin"),
        ("3.5\u201d", "3.5"),
        ("  low   dose aspirin ", "low dose aspirin"),
        ("5-HT", "5-HT"),
        ("1,25-dihydroxyvitamin D", "1,25-dihydroxyvitamin D"),
        ("E. coli", "E. coli"),
        ("2.5 mg", "2.5 mg"),
        ("Crohn's disease", "Crohn's disease"),
        ("3'", "3'"),
        ('"a"b"', 'a"b'),
    ],
)
def test_bullets_numbers_and_quotes_are_stripped_and_names_are_not(text: str, entry: str) -> None:
    assert normalise([text], 5, None) == [entry]


@pytest.mark.parametrize(
    ("values", "temperature"), [({}, 0.0), ({"votes": 2}, 0.7), ({"votes": 2, "temperature": 0.0}, 0.0)]
)
def test_several_votes_are_sampled_unless_the_recipe_has_a_temperature(
    values: dict[str, Any], temperature: float
) -> None:
    assert ExactSettings.model_validate(values).sampled_at == temperature


def test_entries_are_parted_at_lines_and_semicolons_and_repeated_ones_dropped() -> None:
    assert normalise(["EGFR; HER2\negfr", "HER2", ";"], 100, 100) == ["EGFR", "HER2"]


def test_a_factoid_has_five_entries_and_a_list_a_hundred_of_a_hundred_characters() -> None:
    many = [f"entry {number}" for number in range(150)]
    assert len(parsed("factoid", says(many))) == 5
    assert len(parsed("list", says(many))) == 100
    long = "x" * 300
    assert parsed("list", says([long])) == [["x" * 100]]
    assert parsed("factoid", says([long])) == [[long]]


def test_entries_that_differ_only_beyond_the_limit_are_one() -> None:
    assert parsed("list", says(["x" * 100 + "a", "x" * 100 + "b"])) == [["x" * 100]]


def test_of_synonyms_the_first_is_read() -> None:
    assert parsed("list", '{"answer": [["EGFR", "ErbB1"], ["HER2"]]}') == [["EGFR"], ["HER2"]]


@pytest.mark.parametrize("said", [[], [""], ["-  "], [{}], [[]], [[[]]], None, {"a": 1}, [True]])
def test_a_list_of_nothing_is_no_answer(said: Any) -> None:
    with pytest.raises(InvalidReply):
        parsed("list", json.dumps({"answer": said}))


@pytest.mark.parametrize("type_", ["factoid", "list"])
def test_what_was_cut_off_keeps_its_whole_entries(type_: QuestionType) -> None:
    assert rescued(type_, '{"answer": ["a \\"b\\"", "c", "d e') == [['a "b"'], ["c"]]


def test_plain_lines_are_rescued_and_sentences_of_a_refusal_are_not() -> None:
    assert rescued("list", "1. aspirin\n2. ibuprofen") == [["aspirin"], ["ibuprofen"]]
    with pytest.raises(InvalidReply):
        rescued("list", "I am sorry, but " * 20)


def test_a_summary_has_no_exact_answer() -> None:
    with pytest.raises(ValueError, match="no exact answer"):
        exact_reply("summary")
