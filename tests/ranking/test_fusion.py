"""Reciprocal-rank fusion."""

from __future__ import annotations

import pytest

from ranking.fusion import reciprocal_rank_fusion


def test_a_document_that_two_rankings_hold_beats_the_first_of_one() -> None:
    fused = reciprocal_rank_fusion([["a", "b"], ["c", "b"]])
    assert [one.id for one in fused] == ["b", "a", "c"]
    assert fused[0].score == pytest.approx(2 / 62)
    assert fused[1].score == pytest.approx(1 / 61)


def test_ties_keep_the_order_in_which_the_rankings_are_read() -> None:
    assert [one.id for one in reciprocal_rank_fusion([["z", "a"], ["y", "b"]])] == ["z", "y", "a", "b"]


def test_sums_that_are_equal_tie_in_whatever_order_their_terms_come() -> None:
    rankings = [["p", "q", "r"], ["q", "r", "p"], ["r", "p", "q"]]
    assert len({one.score for one in reciprocal_rank_fusion(rankings)}) == 1


def test_of_an_id_that_stands_twice_the_first_place_counts() -> None:
    assert reciprocal_rank_fusion([["a", "b", "a", "c"]]) == reciprocal_rank_fusion([["a", "b", "c"]])


def test_a_larger_k_lets_two_places_far_down_beat_one_at_the_top() -> None:
    rankings = [["a", "x1", "x2", "b"], ["c", "y1", "y2", "b"]]
    assert reciprocal_rank_fusion(rankings, k=0)[0].id == "a"
    assert reciprocal_rank_fusion(rankings, k=60)[0].id == "b"


def test_nothing_fuses_to_nothing() -> None:
    assert reciprocal_rank_fusion([[], []]) == []
