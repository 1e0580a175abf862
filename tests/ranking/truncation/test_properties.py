"""What holds for every list."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from ranking.cutoffs import Autocut, AutocutStar, Cutoff, Elbow, Surprise, SurpriseClean, select

# Multiples of 1/64 survive these maps without rounding.
scores_lists = st.lists(st.integers(-64, 640).map(lambda value: value / 64), min_size=1, max_size=30)
factors = st.sampled_from([0.25, 0.5, 2.0, 8.0])
floors = st.integers(1, 5)
of_any_scale = st.one_of(
    st.builds(Autocut, jumps=st.integers(1, 3), minimum=floors),
    st.builds(AutocutStar, minimum=floors),
    st.builds(Elbow, minimum=floors),
    st.builds(SurpriseClean, alpha=st.floats(0.01, 0.5), minimum=floors),
)
rules = st.one_of(of_any_scale, st.builds(Surprise, minimum=floors))


@given(rules, scores_lists, st.randoms(use_true_random=False))
def test_the_order_of_the_note_changes_nothing(
    rule: Cutoff, scores: list[float], shuffler: random.Random
) -> None:
    moved = scores.copy()
    shuffler.shuffle(moved)
    kept = sorted(moved[place] for place in select(rule, moved))
    assert kept == sorted(scores[place] for place in select(rule, scores))


@given(of_any_scale, scores_lists, factors, st.integers(-8, 8))
def test_neither_scale_nor_shift_moves_the_cut(
    rule: Cutoff, scores: list[float], factor: float, shift: int
) -> None:
    assert select(rule, [factor * score + shift for score in scores]) == select(rule, scores)


def test_of_two_points_equally_far_from_the_line_the_first_cuts_after_any_map() -> None:
    # The distances of places 1 and 2 are equal, and differ once their rounding does.
    scores = [0, 0, 1 / 64, 1 / 64]
    for factor in (0.25, 0.5, 1.0, 2.0, 8.0):
        for shift in range(-8, 9):
            assert select(Elbow(), [factor * score + shift for score in scores]) == [2]


@given(scores_lists, factors)
def test_scale_does_not_move_the_cut_of_the_released_surprise(scores: list[float], factor: float) -> None:
    assert select(Surprise(), [factor * score for score in scores]) == select(Surprise(), scores)
