from __future__ import annotations

import pytest

from serving.protocol.errors import InvalidReply
from serving.protocol.reply import first_json_object


@pytest.mark.parametrize(
    "text",
    [
        '{"a": {"b": 1}}',
        'Sure!\n```json\n{"a": {"b": 1}}\n```',
        '{"a": {"b": 1}} {"a": 2}',
        ' \n{"a":{"b":1} } and',
    ],
)
def test_the_first_object_is_found_among_words(text: str) -> None:
    assert first_json_object(text) == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "no JSON object"),
        ("[1, 2]", "no JSON object"),
        ('{"a": ', "not valid JSON"),
        ("{'a': 1}", "not valid JSON"),
        ('{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_a_fault_can_be_quoted(text: str, fault: str) -> None:
    with pytest.raises(InvalidReply, match=fault) as caught:
        first_json_object(text)
    assert "\n" not in str(caught.value)
