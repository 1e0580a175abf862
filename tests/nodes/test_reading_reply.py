from __future__ import annotations

import math

import pytest

from nodes.reading.read_passages import parse_reading, reading_probabilities
from serving.protocol.errors import InvalidReply
from serving.protocol.messages import TokenLogprob

HEAD = TokenLogprob('{"reading": "', 0.0)


def test_the_first_letter_tells_how_sure_a_reading_is() -> None:
    top = (("supports", math.log(0.6)), ("ref", math.log(0.2)), ("maybe", math.log(0.2)))
    tokens = [HEAD, TokenLogprob("supports", math.log(0.6), top), TokenLogprob('"}', 0.0)]
    assert reading_probabilities(tokens) == {"supports": 0.75, "neutral": 0.0, "refutes": 0.25}


@pytest.mark.parametrize("text", ["", '{"reading": "maybe"}', "neutral"])
def test_a_reply_without_a_reading_tells_no_probability(text: str) -> None:
    assert reading_probabilities([TokenLogprob(text, 0.0)]) is None


@pytest.mark.parametrize("text", ["supports", "{}", '{"reading": "yes"}', '{"reading": null}'])
def test_what_is_none_of_the_three_is_refused(text: str) -> None:
    with pytest.raises(InvalidReply):
        parse_reading(text)


def test_words_around_the_reply_do_not_matter() -> None:
    assert parse_reading('Sure: {"reading": "refutes"}.') == "refutes"
