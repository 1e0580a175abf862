from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.core.wording import essential_list
from nodes.evidence.reply_forms import id_reply, id_reply_tokens, id_schema, known_ids, parse_ids
from serving.protocol.errors import InvalidReply
from tests.nodes.builders import essential

IDS = ["1", "2", "3"]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (essential("1", "3"), ["1", "3"]),
        (essential(), []),
        (essential("3", "1"), ["1", "3"]),
        (f"```json\n{essential('2')}\n```", ["2"]),
    ],
)
def test_a_list_of_ids_is_read_in_note_order(text: str, ids: list[str]) -> None:
    assert parse_ids(text, IDS) == ids


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (essential("1", "9", "9"), "unknown sentence ids: 9; repeated sentence ids: 9"),
        (essential("2", "2"), "repeated sentence ids: 2"),
        ('{"essential": [2, null, ["3"]]}', r"ids that are not strings: 2, None, \['3'\]"),
        ('{"essential": "2"}', "'essential' must be a list of sentence ids"),
        ('{"essential": {"2": true}}', "'essential' must be a list of sentence ids"),
        ('{"ids": ["2"]}', "'essential' must be a list of sentence ids"),
        ('{"essential": ["2"], "reason": "x"}', "unknown fields: reason"),
        ('["2"]', "no JSON object"),
    ],
)
def test_a_fault_can_be_quoted_to_the_model(text: str, fault: str) -> None:
    with pytest.raises(InvalidReply, match=f"^{fault}$|{fault}"):
        parse_ids(text, IDS)


@pytest.mark.parametrize(
    "text", [essential("3", "9", "1", "1"), '{"essential": [3, "1", 1, true, null, [2]], "more": 2}']
)
def test_the_rescue_drops_what_is_no_id_of_the_note(text: str) -> None:
    assert known_ids(text, IDS) == ["1", "3"]


@pytest.mark.parametrize("text", ["{}", "nothing", '{"essential": "1"}', '{"1": "essential"}'])
def test_no_list_is_no_vote(text: str) -> None:
    with pytest.raises(InvalidReply):
        known_ids(text, IDS)


@given(text=st.text() | st.from_regex(r'\{"essential": \[("[1239]"|[0-9]|\[\]|,| )*\]?\}?', fullmatch=True))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (id_reply(IDS).parse, id_reply(IDS).fallback):
        assert read is not None
        try:
            assert set(read(text)) <= set(IDS)
        except InvalidReply as fault:
            assert str(fault)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=6, unique=True), st.data())
def test_what_is_written_is_read_back(ids: list[str], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(ids), unique=True)) if ids else []
    assert parse_ids(essential_list(ids, chosen), ids) == [id_ for id_ in ids if id_ in chosen]


def test_the_schema_holds_each_id_once_and_nothing_else() -> None:
    schema = id_schema(IDS)
    assert json.loads(json.dumps(schema))["properties"]["essential"] == {
        "type": "array",
        "items": {"type": "string", "enum": IDS},
        "uniqueItems": True,
    }
    assert schema["additionalProperties"] is False


def test_the_token_limit_has_room_for_all_ids_at_a_token_a_byte() -> None:
    ids = ["1", "zwölf", "13"]
    assert id_reply_tokens(ids) == len(essential_list(ids, ids).encode()) + 32
