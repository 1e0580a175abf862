from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.answer.align_answer import (
    Alignment,
    alignment_reply,
    alignment_reply_tokens,
    fallback_alignment,
    parse_alignment,
    write_alignment,
)
from serving.backends.reply_schemas import fixed_layout_grammar
from serving.protocol.errors import InvalidReply
from tests.nodes.builders import links

ANSWER = ("1", "2")
NOTE = ("10", "2", "7")


def parsed(text: str) -> Alignment:
    return parse_alignment(text, ANSWER, NOTE)


def fault(text: str) -> str:
    with pytest.raises(InvalidReply) as caught:
        parsed(text)
    return str(caught.value)


def test_links_come_in_note_order() -> None:
    assert parsed(links(s2=[], s1=["7", "10"])) == Alignment({"1": ["10", "7"], "2": []})


def test_words_around_the_object_do_not_matter() -> None:
    assert parsed(f"Sure:\n```json\n{links(s1=['2'], s2=[])}\n```").links == {"1": ["2"], "2": []}


def test_duplicates_are_merged() -> None:
    assert parsed(links(s1=["7", "2", "7"], s2=[])) == Alignment({"1": ["2", "7"], "2": []})


def test_numbers_count_as_ids() -> None:
    assert parsed('{"1": [7, 10], "2": []}').links["1"] == ["10", "7"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (links(s1=["2"]), "missing ids of answer sentences: 2"),
        (links(s1=[], s2=[], s3=[]), "unknown ids of answer sentences: 3"),
        ('{"1": "2", "2": []}', "values that are not lists for: 1"),
        ('{"1": null, "2": {}}', "values that are not lists for: 1, 2"),
        (links(s1=["8"], s2=["9", "8"]), "ids that the note lacks: 8, 9"),
        ('{"1": [true, null, 1.5], "2": []}', "ids that the note lacks: (True), (None), (1.5)"),
        ("no links today", "the reply holds no JSON object"),
    ],
)
def test_a_fault_is_named(text: str, named: str) -> None:
    assert fault(text) == named


def test_what_can_be_read_is_rescued_and_the_rest_counted() -> None:
    rescued = fallback_alignment('{"1": ["99", "7", "99", "98"], "2": "7", "x": []}', ANSWER, NOTE)
    assert rescued == Alignment({"1": ["7"], "2": []}, dropped=2, missing=1)


@pytest.mark.parametrize("text", ["{}", '{"1": "2"}', '{"x": ["2"]}', "nothing"])
def test_no_list_at_all_is_no_alignment(text: str) -> None:
    with pytest.raises(InvalidReply):
        fallback_alignment(text, ANSWER, NOTE)


def test_the_schema_demands_every_answer_sentence_and_ids_of_the_note() -> None:
    schema = alignment_reply(ANSWER, NOTE).schema
    assert schema is not None
    assert schema["required"] == list(schema["properties"]) == ["1", "2"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["1"] == {
        "type": "array",
        "items": {"type": "string", "enum": ["10", "2", "7"]},
        "uniqueItems": True,
    }


def test_the_schema_has_a_grammar_of_its_own() -> None:
    schema = alignment_reply(ANSWER, NOTE).schema
    assert schema is not None
    assert fixed_layout_grammar(schema) is not None


def test_the_longest_reply_fits_its_token_limit() -> None:
    longest = write_alignment({id_: NOTE for id_ in ANSWER})
    assert len(longest.encode()) <= alignment_reply_tokens(ANSWER, NOTE)


@given(st.dictionaries(st.sampled_from(ANSWER), st.lists(st.sampled_from(NOTE)), min_size=2))
def test_what_is_written_is_read_again(cited: dict[str, list[str]]) -> None:
    found = parsed(write_alignment(cited)).links
    assert {id_: set(ids) for id_, ids in found.items()} == {id_: set(ids) for id_, ids in cited.items()}


@given(
    st.recursive(st.none() | st.text(max_size=4) | st.integers(), lambda inner: st.lists(inner, max_size=3))
)
def test_any_value_of_one_sentence_is_rescued(value: object) -> None:
    text = json.dumps({"1": value, "2": []})
    rescued = fallback_alignment(text, ANSWER, NOTE)
    assert set(rescued.links) == set(ANSWER)
    assert set(rescued.links["1"]) <= set(NOTE)
