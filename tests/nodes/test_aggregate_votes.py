from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.core.records import Vote
from nodes.evidence.aggregate_votes import aggregate_votes, count_votes, scaled_threshold, select
from tests.nodes.builders import Bench, case, flags, run_node

IDS = ["1", "2", "3", "4"]


def votes(rows: list[list[bool]]) -> list[Vote]:
    """One row a sentence, one column a vote."""
    return [
        Vote(vote=index, essential=[str(number) for number, row in enumerate(rows, start=1) if row[index]])
        for index in range(len(rows[0]))
    ]


VECTOR = votes(
    [
        [True, False, True],
        [True, True, False],
        [False, False, True],
        [True, True, True],
    ]
)


@pytest.mark.parametrize(
    ("threshold", "essential"), [(1, ["1", "2", "3", "4"]), (2, ["1", "2", "4"]), (3, ["4"])]
)
def test_essential_from_the_threshold_on(threshold: int, essential: list[str]) -> None:
    assert select(count_votes(VECTOR, IDS), threshold) == essential


@given(
    rows=st.integers(1, 7).flatmap(
        lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1)
    )
)
def test_a_higher_threshold_never_adds_a_sentence(rows: list[list[bool]]) -> None:
    counts = count_votes(votes(rows), [str(number) for number in range(1, len(rows) + 1)])
    chosen = [set(select(counts, threshold)) for threshold in range(1, len(rows[0]) + 2)]
    assert all(more >= fewer for more, fewer in pairwise(chosen))
    assert chosen[-1] == set()


@given(wanted=st.integers(1, 101), data=st.data())
def test_a_scaled_threshold_can_be_reached(wanted: int, data: st.DataObject) -> None:
    threshold = data.draw(st.integers(1, wanted))
    usable = data.draw(st.integers(1, wanted))
    scaled = scaled_threshold(threshold, usable, wanted)
    assert 1 <= scaled <= usable
    assert scaled_threshold(threshold, wanted, wanted) == threshold


@pytest.mark.parametrize(("usable", "threshold"), [(5, 3), (4, 3), (3, 2), (2, 2), (1, 1)])
def test_three_of_five_scales_with_the_usable_votes(usable: int, threshold: int) -> None:
    assert scaled_threshold(3, usable, 5) == threshold


async def test_every_sentence_has_a_count_and_every_setting_its_sentences(bench: Bench) -> None:
    context = bench.context(case(note=["a", "b", "c", "d"]), evidence={"votes": 3, "threshold": 3})
    update = await run_node(aggregate_votes, {"case_id": "q", "votes": VECTOR}, context)
    assert update["vote_counts"] == {"1": 2, "2": 2, "3": 1, "4": 3}
    assert update["evidence"] == {
        "threshold": ["4"],
        "high_recall": ["1", "2", "3", "4"],
        "low_recall": ["1", "2", "4"],
    }


async def test_reflected_votes_count_instead_of_the_first(bench: Bench) -> None:
    reflected = [Vote(vote=index, essential=["3"]) for index in range(5)]
    first = [Vote(vote=index, essential=["1"]) for index in range(5)]
    state = {"case_id": "q", "votes": first, "reflected_votes": reflected}
    update = await run_node(aggregate_votes, state, bench.context())
    assert update["evidence"]["threshold"] == ["3"]


async def test_a_missing_vote_does_not_count_against_a_sentence(bench: Bench) -> None:
    half = [Vote(vote=0, essential=["1"]), Vote(vote=1, essential=["1"]), Vote(vote=4, essential=[])]
    update = await run_node(aggregate_votes, {"case_id": "q", "votes": half}, bench.context())
    assert update["usable_votes"] == 3
    assert update["evidence"]["threshold"] == ["1"]


async def test_no_essential_sentence_is_flagged(bench: Bench) -> None:
    nothing = [Vote(vote=index, essential=[]) for index in range(5)]
    update = await run_node(aggregate_votes, {"case_id": "q", "votes": nothing}, bench.context())
    assert flags(update) == {"no_essential_sentence"}
    assert all(chosen == [] for chosen in update["evidence"].values())


async def test_the_only_usable_vote_is_low_recall_too(bench: Bench) -> None:
    one = [Vote(vote=3, essential=["2"])]
    update = await run_node(aggregate_votes, {"case_id": "q", "votes": one}, bench.context())
    assert update["evidence"]["low_recall"] == ["2"]


@pytest.mark.parametrize(("numbers", "asked"), [((0, 1, 1), 3), ((0, 1, 2, 3), 3)])
async def test_no_more_votes_are_counted_than_were_requested(
    bench: Bench, numbers: tuple[int, ...], asked: int
) -> None:
    reflected = [Vote(vote=number, essential=["1"]) for number in numbers]
    state = {"case_id": "q", "reflected_votes": reflected, "asked_votes": asked}
    with pytest.raises(AssertionError):
        await run_node(aggregate_votes, state, bench.context(evidence={"votes": 3, "threshold": 2}))
