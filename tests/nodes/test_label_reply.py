from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.evidence.reply_forms import complete_labels, label_reply, label_schema, parse_labels, reply_tokens
from serving.protocol.errors import InvalidReply
from tests.nodes.builders import labels

IDS = ["1", "2", "3"]
GOOD = labels("1", "3")


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"Here are the labels:\n{GOOD}\nI hope this helps {{you}}.",
        labels("3", "1", of=["3", "2", "1"]),
    ],
)
def test_a_complete_label_map_is_read_in_note_order(text: str) -> None:
    assert parse_labels(text, IDS) == ["1", "3"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (labels("1", of=["1"]), "missing sentence ids: 2, 3"),
        (labels("1", of=[*IDS, "9"]), "unknown sentence ids: 9"),
        (
            GOOD.replace("not-essential", "supplementary"),
            "labels other than essential and not-essential for: 2",
        ),
        (json.dumps({"1": True, "2": None, "3": ["essential"]}), "for: 1, 2, 3"),
        ("[1, 2]", "no JSON object"),
        ("", "no JSON object"),
        ('{"1": "essential"', "not valid JSON"),
        ("{" * 10, "not valid JSON"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"1": ' + "9" * 5000 + "}", "a number that is too long"),
    ],
)
def test_a_fault_can_be_quoted_to_the_model(text: str, fault: str) -> None:
    with pytest.raises(InvalidReply, match=fault):
        parse_labels(text, IDS)


def test_a_long_list_of_faulty_ids_is_cut() -> None:
    with pytest.raises(InvalidReply) as caught:
        parse_labels("{}", [str(number) for number in range(100)])
    assert str(caught.value).endswith("10, 11 and 88 more")


class CountedId(str):
    """An id that counts how often any is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedId.compared += 1
        return str.__eq__(self, other)


def test_no_id_of_a_long_note_is_sought_one_by_one() -> None:
    ids = [str(number) for number in range(5000)]
    text = labels(*ids[::2], of=ids)
    assert parse_labels(text, [CountedId(id_) for id_ in ids]) == ids[::2]
    assert CountedId.compared < 20 * len(ids)


def test_the_rescue_drops_what_is_unknown() -> None:
    text = json.dumps({"1": "essential", "2": "supplementary", "9": "essential", "3": "not-essential"})
    assert complete_labels(text, IDS, ()) == ["1"]


def test_the_rescue_takes_missing_labels_from_the_fallback() -> None:
    assert complete_labels(labels("1", of=["1"]), IDS, ["1", "3"]) == ["1", "3"]


def test_the_rescue_lets_a_label_overrule_the_fallback() -> None:
    assert complete_labels(labels(of=["1"]), IDS, ["1", "3"]) == ["3"]


@pytest.mark.parametrize(
    "text", ["{}", "nothing", '{"9": "essential"}', '{"1": "maybe"}', '{"1": {"2": "essential"}}']
)
def test_not_a_single_label_is_no_vote(text: str) -> None:
    with pytest.raises(InvalidReply):
        complete_labels(text, IDS, IDS)


@given(text=st.text() | st.from_regex(r'\{("[123]": ("essential"|[0-9]+|\{\}),? ?)*\}?', fullmatch=True))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (label_reply(IDS).parse, label_reply(IDS).fallback):
        assert read is not None
        try:
            assert set(read(text)) <= set(IDS)
        except InvalidReply as fault:
            assert str(fault)


def test_the_schema_asks_for_every_id_and_nothing_else() -> None:
    schema = label_schema(IDS)
    assert schema["required"] == IDS
    assert schema["additionalProperties"] is False


def test_a_longer_note_has_room_for_a_longer_reply() -> None:
    assert reply_tokens(100) - reply_tokens(99) == 16
