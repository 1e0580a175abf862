"""Two rankings made one, by the vectors of the specification."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.measures import average_precision
from ranking.rankers.ensembles import (
    GRID,
    JudgedRankings,
    Ranking,
    RankToScore,
    ensemble_value,
    nominate,
    rank_scores,
    reciprocal_rank_fusion,
    tune_weights,
    weighted_scores,
)


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


FIRST = Ranking(tuple("abcde"), (3.2, 1.1, 0.7, -0.4, -2.0))
SECOND = Ranking(tuple("cafbd"))


def test_nomination_takes_six_of_the_first_and_fills_up_with_the_second() -> None:
    assert nominate("abcdefghij", "cakblmndef", 10) == list("abcdefklmn")


def test_nomination_ends_with_the_rest_of_the_first_where_the_second_is_short() -> None:
    assert nominate("abcdefgh", "xa", 8) == list("abcdefxg")


@pytest.mark.parametrize(
    ("how", "second", "expected"),
    [
        ("linear", "linear", {"c": 7.6, "a": 6.6, "f": 4.2, "b": 3.6, "d": 1.8, "e": 0.2}),
        ("reciprocal", "reciprocal", {"c": 7.3333, "a": 4.5, "f": 2.3333, "b": 2.25, "d": 1.65, "e": 0.2}),
        ("rrf", "rrf", {"c": 0.1306, "a": 0.1293, "b": 0.1255, "d": 0.1233, "f": 0.1111, "e": 0.0154}),
        ("minmax", "linear", {"c": 7.5192, "a": 6.6, "f": 4.2, "b": 3.3962, "d": 1.7077, "e": 0.0}),
    ],
)
def test_weighted_scores_are_those_of_the_specification(
    how: RankToScore, second: RankToScore, expected: dict[str, float]
) -> None:
    scores = weighted_scores(FIRST, SECOND, (1, 7), how, second)
    assert list(scores) == list(expected)
    assert scores == pytest.approx(expected, abs=6e-5)


def test_ties_go_by_the_place_in_the_first_ranking() -> None:
    scores = weighted_scores(Ranking(("a", "b")), Ranking(("b", "a")), (1, 1), "linear", "linear")
    assert list(scores) == ["a", "b"]
    assert len(set(scores.values())) == 1


def test_a_document_with_the_lowest_logit_is_not_behind_one_that_was_not_ranked_at_all() -> None:
    scores = weighted_scores(FIRST, Ranking(("x", "a")), (1, 0), "minmax", "linear")
    assert list(scores) == [*"abcde", "x"]


def test_equal_logits_are_all_best() -> None:
    assert rank_scores(Ranking(("a", "b"), (2.0, 2.0)), "minmax") == {"a": 1.0, "b": 1.0}


def test_minmax_of_places_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="places alone; use linear"):
        rank_scores(SECOND, "minmax")


def test_a_ranking_with_a_document_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="duplicate document"):
        Ranking(("a", "a"))


@pytest.mark.parametrize("scores", [(1.0,), (1.0, float("inf"))])
def test_a_ranking_without_a_finite_score_of_each_document_is_refused(scores: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="2 documents without as many finite scores"):
        Ranking(("a", "b"), scores)


def test_the_grid_goes_from_the_first_ranking_alone_to_the_second_alone() -> None:
    ratios = [second / first if first else float("inf") for first, second in GRID]
    assert ratios == sorted(ratios)
    assert (ratios[0], ratios[1], ratios[-2], ratios[-1]) == (0, 1 / 8, 8, float("inf"))
    assert (1.0, 7.0) in GRID


def test_of_equally_good_weights_the_smaller_ratio_is_taken() -> None:
    same = JudgedRankings(SECOND, SECOND, frozenset("c"))
    tuned = tune_weights([same], "linear", "linear", split="validation")
    assert tuned.weights == GRID[0]
    assert (tuned.split, tuned.questions) == ("validation", 1)


def test_weights_can_beat_both_parts() -> None:
    first = Ranking(tuple("axybcdefgh"))
    second = Ranking(tuple("bxycadefgh"))
    question = JudgedRankings(first, second, frozenset("ab"))
    tuned = tune_weights([question], "reciprocal", "reciprocal", split="validation")
    alone = [average_precision(one.ids, "ab") for one in (first, second)]
    assert tuned.value == 1.0 > max(alone)


IDS = st.permutations(tuple("abcdefghijkl"))


@given(
    st.lists(st.tuples(IDS, st.lists(st.sampled_from("abcdefghijklm"), unique=True), IDS), max_size=6).filter(
        len
    ),
    st.sampled_from(["linear", "reciprocal", "rrf", "minmax"]),
)
def test_the_ensemble_is_never_worse_than_its_best_part_where_it_was_tuned(
    drawn: list[tuple[list[str], list[str], list[str]]], how: RankToScore
) -> None:
    questions = [
        JudgedRankings(
            Ranking(tuple(first), tuple(float(-place // 2) for place in range(len(first)))),
            Ranking(tuple(second[: 1 + len(relevant)])),
            frozenset(relevant),
        )
        for first, relevant, second in drawn
    ]
    tuned = tune_weights(questions, how, "linear", split="validation")
    for parts in ([one.first for one in questions], [one.second for one in questions]):
        pairs = zip(parts, questions, strict=True)
        alone = np.mean([average_precision(part.ids, one.relevant) for part, one in pairs])
        assert tuned.value >= alone - 1e-12
    assert tuned.value == ensemble_value(questions, tuned.weights, how, "linear")


def test_no_question_is_no_split_to_tune_on() -> None:
    with pytest.raises(ValueError, match="split 'validation': it has no question"):
        tune_weights([], "linear", "linear", split="validation")
