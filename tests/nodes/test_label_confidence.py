from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.evidence.reply_forms import label_confidence, mean_confidence
from serving.protocol.messages import TokenLogprob
from tests.nodes.builders import labels


def token(text: str, share: float = 1.0, **others: float) -> TokenLogprob:
    """A token with its probability, and others by text: `_` is a quote, `__` a space and a quote."""
    top = {name.replace("__", " _").replace("_", '"'): value for name, value in others.items()}
    return TokenLogprob(text, math.log(share), tuple((name, math.log(p)) for name, p in top.items()))


def plain(*texts: str) -> list[TokenLogprob]:
    return [token(text) for text in texts]


SPLIT = [*plain('{"', "1", '":', ' "'), token("essential", 0.6, ess=0.1, n=0.2, not_=0.1), *plain('"}')]


def test_alternatives_that_begin_either_label_are_held_against_each_other() -> None:
    assert label_confidence(SPLIT, ["1"]) == {"1": pytest.approx(0.7 / 0.9)}


@pytest.mark.parametrize(
    "tokens",
    [
        # The quote and a space before it belong to the token.
        [*plain('{"1":'), token(' "n', 0.25, __ess=0.75), *plain('ot-essential"}')],
        # The token goes on beyond the label.
        [*plain('{"1": "'), token('not-essential"}', 0.25, essential_=0.75)],
        [*plain('{"1": "'), token('not-essential", ', 0.25, e=0.75), *plain('"2": "essential"}')],
        # White space may differ.
        [*plain('{\n  "1":'), token(' "not-essential', 0.25, _essential=0.75), *plain('"\n}')],
        # What begins neither label is left out, and so is what begins both.
        [
            *plain('{"1":'),
            token(' "n', 0.1, __e=0.3, __=0.3, __sup=0.2, __essentially=0.1, xe=0.1),
            *plain('ot-essential"}'),
        ],
        # The token itself may be among the likeliest.
        [*plain('{"1": "'), token("n", 0.25, n=0.25, e=0.75), *plain('ot-essential"}')],
    ],
)
def test_a_token_may_hold_more_or_less_than_the_label(tokens: list[TokenLogprob]) -> None:
    assert label_confidence(tokens, ["1"]) == {"1": pytest.approx(0.75)}


def test_each_sentence_has_its_own_place() -> None:
    tokens = [
        *plain('{"10', '": "'),
        token("e", 0.9, n=0.1),
        *plain("ssential", '", "1": "'),
        token("not", 0.8, essential=0.2),
        *plain('-essential"}'),
    ]
    assert label_confidence(tokens, ["1", "10", "7"]) == {
        "1": pytest.approx(0.2),
        "10": pytest.approx(0.9),
        "7": None,
    }


def test_one_token_can_decide_several_sentences() -> None:
    assert label_confidence(plain(labels("1")), ["1", "2", "3"]) == {"1": 1.0, "2": 0.0, "3": 0.0}


def test_a_label_without_probability_is_none() -> None:
    nothing = TokenLogprob("essential", -math.inf, (("n", -math.inf),))
    assert label_confidence([*plain('{"1": "'), nothing, *plain('"}')], ["1"]) == {"1": None}


@pytest.mark.parametrize(
    "text", ["", "no", '{"1": "maybe"}', '"1": "essential"', '{"1": "essential"', '{"1": ["essential"]}']
)
def test_a_reply_without_the_label_tells_nothing(text: str) -> None:
    assert label_confidence(plain(*text), ["1"]) == {"1": None}


def test_text_around_the_reply_is_passed_over() -> None:
    text = f'Not {{"1": "essential"... but:\n```json\n{labels("2")}\n```\nnot {{"1": "essential"}}'
    assert label_confidence(plain(*text), ["1", "2", "3"]) == {"1": 0.0, "2": 1.0, "3": 0.0}


@given(
    ids=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4, unique=True),
    cuts=st.lists(st.integers(0, 200), max_size=12),
    data=st.data(),
)
def test_however_a_reply_is_cut_into_tokens_its_labels_are_certain(
    ids: list[str], cuts: list[int], data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(ids), unique=True))
    text = labels(*chosen, of=ids)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    tokens = plain(*(text[one:two] for one, two in pairwise(places)))
    assert label_confidence(tokens, ids) == {id_: float(id_ in chosen) for id_ in ids}


@given(st.lists(st.tuples(st.text(max_size=6), st.floats(-20, 0)), max_size=8))
def test_any_tokens_give_a_share_or_nothing(parts: list[tuple[str, float]]) -> None:
    tokens = [*plain('{"1": "'), *(TokenLogprob(text, value, tuple(parts)) for text, value in parts)]
    (share,) = label_confidence(tokens, ["1"]).values()
    assert share is None or 0 <= share <= 1


def test_the_mean_is_over_the_votes_that_tell() -> None:
    votes = [{"1": 0.9, "2": 0.5}, {"1": 0.6}, {"1": 0.0, "2": 0.25}]
    assert mean_confidence(votes, ["1", "2", "3"]) == {"1": 0.5, "2": 0.375, "3": None}
    assert json.loads(json.dumps(mean_confidence([], ["1"]))) == {"1": None}
