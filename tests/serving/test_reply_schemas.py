from __future__ import annotations

import json
from itertools import combinations

import pytest
import xgrammar
from hypothesis import given
from hypothesis import strategies as st

from nodes.evidence.reply_forms import id_schema, label_schema
from serving.backends.reply_schemas import MAX_CHOICES, fixed_layout_grammar


def accepts(grammar: str, text: str) -> bool:
    """Whether xgrammar, vLLM's default engine, lets a text pass."""
    vocabulary = [bytes([byte]) for byte in range(256)]
    info = xgrammar.TokenizerInfo(vocabulary, stop_token_ids=[0])
    matcher = xgrammar.GrammarMatcher(xgrammar.GrammarCompiler(info).compile_grammar(grammar))
    return matcher.accept_string(text) and matcher.accept_token(0)


def labels(ids: list[str], label: str = "essential") -> str:
    return json.dumps(dict.fromkeys(ids, label), ensure_ascii=False)


def grammar_of(ids: list[str]) -> str:
    grammar = fixed_layout_grammar(label_schema(ids))
    assert grammar is not None
    return grammar


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1),
        min_size=1,
        max_size=4,
        unique=True,
    )
)
def test_any_sentence_ids_pass_as_json_dumps_writes_them(ids: list[str]) -> None:
    assert accepts(grammar_of(ids), labels(ids))


@pytest.mark.parametrize(
    "text",
    [
        '{"1":"essential", "2": "essential"}',
        '{"1": "essential",\n"2": "essential"}',
        '{"1": "essential"}',
        '{"2": "essential", "1": "essential"}',
        '{"1": "maybe", "2": "essential"}',
    ],
)
def test_another_layout_order_or_value_does_not_pass(text: str) -> None:
    assert accepts(grammar_of(["1", "2"]), labels(["1", "2"]))
    assert not accepts(grammar_of(["1", "2"]), text)


IDS = ["1", "2", "3", "10"]
SUBSETS = [list(chosen) for size in range(5) for chosen in combinations(IDS, size)]


def listed(ids: list[str]) -> str:
    return json.dumps({"essential": ids}, ensure_ascii=False)


def list_grammar(ids: list[str]) -> str:
    grammar = fixed_layout_grammar(id_schema(ids))
    assert grammar is not None
    return grammar


@pytest.mark.parametrize("chosen", SUBSETS, ids=str)
def test_every_choice_of_ids_passes_in_note_order(chosen: list[str]) -> None:
    assert accepts(list_grammar(IDS), listed(chosen))


@pytest.mark.parametrize(
    "text",
    [
        listed(["2", "1"]),
        listed(["1", "1"]),
        listed(["4"]),
        listed(["1"]).replace(": ", ":"),
        listed(["1", "2"]).replace(", ", ","),
        '{"essential": ["1", ]}',
        '{"essential": [1]}',
        '{"essential": ["1"',
        '{"essential": ["1"], "more": []}',
    ],
)
def test_a_list_out_of_order_with_repetitions_or_strangers_does_not_pass(text: str) -> None:
    assert not accepts(list_grammar(IDS), text)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {"text": {"type": "string"}}},
        {
            "type": "object",
            "properties": {"a": {"type": "array", "items": {"type": "string", "enum": ["b"]}}},
        },
        {"type": "object", "properties": {"a": {"type": "array", "items": {}, "uniqueItems": True}}},
        {"type": "string"},
    ],
)
def test_other_schemas_have_no_fixed_layout(schema: dict[str, object]) -> None:
    assert fixed_layout_grammar(schema) is None


def test_a_list_of_too_many_choices_has_no_fixed_layout() -> None:
    ids = [str(number) for number in range(MAX_CHOICES + 1)]
    assert fixed_layout_grammar(id_schema(ids)) is None
    assert fixed_layout_grammar(id_schema(ids[1:])) is not None
    assert fixed_layout_grammar(label_schema(ids)) is not None
