from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.messages import Message
from serving.routing import choose, prefix_of
from tests.serving.asks import PROMPT

ADDRESSES = [f"http://10.0.0.{number}:8000/v1" for number in range(1, 5)]
PREFIXES = [f"prefix {number}" for number in range(400)]


def idle(*addresses: str) -> dict[str, int]:
    return dict.fromkeys(addresses, 0)


def test_a_follow_up_has_the_prefix_of_its_conversation() -> None:
    turns = (Message("assistant", "yes"), Message("user", "Are you sure?"))
    assert prefix_of((*PROMPT, *turns)) == prefix_of(PROMPT)


@pytest.mark.parametrize("position", [0, 1])
def test_another_beginning_is_another_prefix(position: int) -> None:
    other = list(PROMPT)
    other[position] = Message("user", "Another one.")
    assert prefix_of(other) != prefix_of(PROMPT)


def test_texts_that_join_to_the_same_are_different_prefixes() -> None:
    assert prefix_of([Message("user", "ab"), Message("user", "c")]) != prefix_of(
        [Message("user", "a"), Message("user", "bc")]
    )


def test_the_same_prefix_goes_to_the_same_server_whatever_the_order_of_servers() -> None:
    for prefix in PREFIXES[:50]:
        assert choose(prefix, idle(*ADDRESSES)) == choose(prefix, idle(*reversed(ADDRESSES)))


def test_prefixes_spread_over_all_servers() -> None:
    counts = Counter(choose(prefix, idle(*ADDRESSES)) for prefix in PREFIXES)
    assert all(60 <= counts[address] <= 140 for address in ADDRESSES)


def test_only_the_conversations_of_a_server_that_goes_move() -> None:
    gone, *left = ADDRESSES
    for prefix in PREFIXES:
        before, after = choose(prefix, idle(*ADDRESSES)), choose(prefix, idle(*left))
        assert after == before or before == gone


def test_a_prefix_that_all_cases_share_does_not_fill_one_server() -> None:
    loads = idle(*ADDRESSES)
    for _ in range(100):
        loads[choose("the same", loads)] += 1
    assert max(loads.values()) <= math.ceil(1.25 * 100 / 4)


@given(st.text(), st.lists(st.integers(0, 1000), min_size=1, max_size=8))
def test_the_choice_is_never_among_the_fullest_beyond_the_bound(prefix: str, numbers: list[int]) -> None:
    loads = {f"http://{index}": number for index, number in enumerate(numbers)}
    chosen = choose(prefix, loads)
    assert loads[chosen] < 1.25 * (sum(numbers) + 1) / len(numbers) + 1
