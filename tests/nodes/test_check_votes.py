from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.core.records import Vote
from nodes.evidence.aggregate_votes import aggregate_votes
from nodes.evidence.check_votes import check_votes, undecided, votes_until_settled
from tests.nodes.builders import Bench, facts, run_node

UP_TO_NINE = {"votes": "3..9", "threshold": 5}


def votes(*essential: str) -> list[Vote]:
    """One text of ids a vote."""
    return [Vote(vote=index, essential=list(ids)) for index, ids in enumerate(essential)]


@pytest.mark.parametrize(
    ("count", "remaining", "more"),
    [
        (5, 4, 0),  # has its five
        (0, 4, 0),  # four more are not enough
        (4, 4, 1),  # one more is enough
        (1, 4, 1),  # one less and it is out
        (3, 6, 2),
        (0, 6, 2),
        (2, 6, 3),
        (4, 0, 0),
    ],
)
def test_a_sentence_needs_what_it_lacks_or_what_puts_it_out_of_reach(
    count: int, remaining: int, more: int
) -> None:
    assert votes_until_settled({"1": count}, 5, remaining) == more
    assert undecided({"1": count}, 5, remaining) == (["1"] if more else [])


def test_the_sentence_that_needs_most_decides() -> None:
    counts = {"1": 5, "2": 4, "3": 2, "4": 0}
    assert undecided(counts, 5, 4) == ["2", "3"]
    assert votes_until_settled(counts, 5, 4) == 2


@st.composite
def sittings(draw: st.DrawFn) -> tuple[int, int, int, list[list[bool]]]:
    """R, T, the votes asked first, and for each sentence its R votes."""
    most = draw(st.integers(1, 15))
    row = st.lists(st.booleans(), min_size=most, max_size=most)
    rows = draw(st.lists(row, min_size=1, max_size=6))
    return most, draw(st.integers(1, most)), draw(st.integers(1, most)), rows


@given(sittings())
def test_the_labels_are_those_of_all_votes(sitting: tuple[int, int, int, list[list[bool]]]) -> None:
    most, threshold, asked, rows = sitting
    while True:
        counts = {str(number): sum(row[:asked]) for number, row in enumerate(rows)}
        more = votes_until_settled(counts, threshold, most - asked)
        if not more:
            break
        assert 1 <= more <= most - asked
        asked += more
    assert [count >= threshold for count in counts.values()] == [sum(row) >= threshold for row in rows]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(1, 12), st.integers(0, 9))
def test_no_fewer_votes_could_settle_everything(numbers: list[int], threshold: int, remaining: int) -> None:
    counts = {str(index): number for index, number in enumerate(numbers)}
    more = votes_until_settled(counts, threshold, remaining)

    def can_settle(count: int, further: int) -> bool:
        return any(
            not undecided({"1": count + essential}, threshold, remaining - further)
            for essential in range(further + 1)
        )

    assert all(can_settle(count, more) for count in counts.values())
    assert more == 0 or not all(can_settle(count, more - 1) for count in counts.values())


async def test_the_decision_says_what_is_open_and_what_it_asks_for(bench: Bench) -> None:
    state = {"case_id": "q", "votes": votes("1", "12", "1"), "asked_votes": 3}
    update = await run_node(check_votes, state, bench.context(evidence=UP_TO_NINE))
    assert update["more_votes"] == 3
    assert update["decisions"][0]["because"] == (
        "after 3 of at most 9 votes 3 labels are open; 3 more could settle it"
    )
    assert facts(update) == {
        "counts": {"1": 3, "2": 1, "3": 0},
        "threshold": 5,
        "undecided": ["1", "2", "3"],
        "asked": 3,
        "remaining": 6,
        "asks_for": 3,
    }


async def test_a_single_open_label_is_told_as_one(bench: Bench) -> None:
    state = {"case_id": "q", "votes": votes("1", "1", "1", "1", ""), "asked_votes": 5}
    update = await run_node(check_votes, state, bench.context(evidence=UP_TO_NINE))
    assert "1 label is open; 1 more could settle it" in update["decisions"][0]["because"]


async def test_reflected_votes_count_instead_of_the_first(bench: Bench) -> None:
    state = {"case_id": "q", "votes": votes(*["1"] * 6), "reflected_votes": votes(*["2"] * 6)}
    update = await run_node(check_votes, {**state, "asked_votes": 6}, bench.context(evidence=UP_TO_NINE))
    assert facts(update)["counts"] == {"1": 0, "2": 6, "3": 0}
    assert update["more_votes"] == 0


async def test_a_failed_vote_lowers_the_threshold_and_an_unasked_one_does_not(bench: Bench) -> None:
    context = bench.context(evidence=UP_TO_NINE)
    five = {"case_id": "q", "votes": votes(*["1"] * 5), "asked_votes": 5}
    assert facts(await run_node(check_votes, five, context))["threshold"] == 5
    assert facts(await run_node(check_votes, {**five, "asked_votes": 7}, context))["threshold"] == 4
    assert facts(await run_node(aggregate_votes, five, context))["threshold"] == 5
    assert facts(await run_node(aggregate_votes, {**five, "asked_votes": 7}, context))["threshold"] == 4


async def test_a_minimum_of_usable_votes_is_asked_for_even_if_labels_are_settled(bench: Bench) -> None:
    evidence = {"votes": "1..9", "threshold": 1, "minimum_votes": 4}
    state = {"case_id": "q", "votes": votes("123"), "asked_votes": 2}
    update = await run_node(check_votes, state, bench.context(evidence=evidence))
    assert (update["more_votes"], facts(update)["undecided"]) == (3, [])


async def test_the_count_tells_what_was_saved(bench: Bench) -> None:
    state = {"case_id": "q", "votes": votes(*["1"] * 5), "asked_votes": 5}
    update = await run_node(aggregate_votes, state, bench.context(evidence=UP_TO_NINE))
    assert update["decisions"][0]["because"] == (
        "1 of 3 sentences have at least 5 of 5 votes; asked 5 of at most 9 votes; 4 saved"
    )
    assert (facts(update)["asked_votes"], facts(update)["saved_votes"]) == (5, 4)


async def test_a_fixed_number_of_votes_saves_nothing_and_says_nothing(bench: Bench) -> None:
    update = await run_node(aggregate_votes, {"case_id": "q", "votes": votes(*["1"] * 5)}, bench.context())
    assert update["decisions"][0]["because"] == "1 of 3 sentences have at least 3 of 5 votes"
    assert "saved_votes" not in facts(update)
