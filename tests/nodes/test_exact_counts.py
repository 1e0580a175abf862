from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.answer.aggregate_exact_answers import aggregate
from nodes.answer.exact_reply import Exact


def entries(*texts: str) -> Exact:
    return [[text] for text in texts]


@pytest.mark.parametrize(
    ("votes", "answer"), [("yyn", "yes"), ("nny", "no"), ("n", "no"), ("yn", "yes"), ("ny", "yes")]
)
def test_the_majority_answers_and_a_tie_is_yes(votes: str, answer: str) -> None:
    result = aggregate(["yes" if one == "y" else "no" for one in votes], "yesno", 0.5)
    assert result.answer == answer
    assert (result.yes, result.no) == (votes.count("y"), votes.count("n"))
    assert result.tied == (len(votes) == 2)


def test_factoids_go_by_the_sum_of_reciprocal_ranks() -> None:
    votes = [entries("a", "b"), entries("b", "a"), entries("c", "b")]
    result = aggregate(votes, "factoid", 0.5)
    assert result.answer == entries("b", "a", "c")
    assert [(one["entry"], one["score"], one["votes"]) for one in result.entries] == [
        ("b", 2.0, 3),
        ("a", 1.5, 2),
        ("c", 1.0, 1),
    ]


def test_entries_that_differ_in_case_and_white_space_are_one_as_first_spelled() -> None:
    votes = [entries("Factor  V"), entries("factor v", "FACTOR V")]
    result = aggregate(votes, "factoid", 0.5)
    assert result.answer == entries("Factor  V")
    assert result.entries == [{"entry": "Factor  V", "votes": 2, "score": 2.0}]


def test_at_most_five_candidates_answer_a_factoid() -> None:
    votes = [entries(*"abcde"), entries(*"fghij")]
    assert aggregate(votes, "factoid", 0.5).answer == entries("a", "f", "b", "g", "c")


def test_a_list_keeps_what_enough_votes_name_most_named_first() -> None:
    votes = [entries("a", "b", "c"), entries("b", "c"), entries("c", "d")]
    result = aggregate(votes, "list", 0.5)
    assert result.answer == entries("c", "b")
    assert [one["votes"] for one in result.entries] == [3, 2, 1, 1]
    assert aggregate(votes, "list", 2 / 3).answer == entries("c", "b")
    assert aggregate(votes, "list", 1.0).answer == entries("c")


def test_without_agreement_the_first_vote_stands() -> None:
    result = aggregate([entries("a", "b"), entries("c"), entries("d")], "list", 0.5)
    assert (result.answer, result.disagreed) == (entries("a", "b"), True)


@given(st.lists(st.text("abcXYZ", min_size=1), min_size=1, max_size=5, unique_by=str.casefold))
def test_a_single_vote_passes_through(texts: list[str]) -> None:
    assert aggregate([entries(*texts)], "factoid", 1.0).answer == entries(*texts)
    assert aggregate([entries(*texts)], "list", 1.0).answer == entries(*texts)


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True), min_size=1, max_size=7))
def test_a_lower_threshold_never_takes_an_entry_away(votes: list[list[str]]) -> None:
    given_votes = [entries(*vote) for vote in votes]
    strict, loose = (aggregate(given_votes, "list", share) for share in (0.8, 0.3))
    if not strict.disagreed:
        assert {one[0] for one in strict.answer} <= {one[0] for one in loose.answer}
