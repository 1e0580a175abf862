"""Lengths that the rules give for known lists."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ranking.prefixes import Floats
from ranking.truncation.rules import autocut, autocut_star, elbow, surprise, surprise_clean
from tests.ranking.truncation.lists import K30, LISTS

Rule = Callable[[Floats], int]
RULES: tuple[Rule, ...] = (autocut, autocut_star, elbow, surprise, surprise_clean)


@pytest.mark.parametrize(
    ("name", "of_autocut", "of_autocut_star", "of_elbow", "of_surprise"),
    [
        ("far-off last", 3, 3, 2, 4),
        ("plateau", 3, 2, 3, 4),
        ("convex", 1, 1, 1, 3),
        ("three and five", 3, 3, 3, 1),
        ("line", 5, 1, 1, 3),
        ("equal", 4, 1, 1, 1),
        ("two", 2, 1, 1, 1),
        ("one", 1, 1, 1, 1),
        ("steps", 3, 3, 5, 5),
        ("bulge", 5, 4, 3, 1),
        ("long", 5, 3, 5, 17),
    ],
)
def test_lists_are_cut_at_their_lengths(
    name: str, of_autocut: int, of_autocut_star: int, of_elbow: int, of_surprise: int
) -> None:
    scores = np.array(LISTS[name])
    assert autocut(scores) == of_autocut
    assert autocut_star(scores) == of_autocut_star
    assert elbow(scores) == of_elbow
    assert surprise(scores) == of_surprise


@pytest.mark.parametrize(
    ("scores", "jumps", "length"),
    [
        ([2, 1.95, 1.9, 0.2, 0.1, 0.1, -1], 1, 3),
        ([2, 1.95, 1.9, 0.2, 0.1, 0.1, -2], 2, 6),
        ([5, 1, 1, 1, 1, 0, 0], 1, 1),
        ([5, 1, 1, 1, 1, 0, 0], 2, 5),
        ([0.298, 0.260, 0.169, 0.108, 0.108, 0.104, 0.093], 1, 3),
        ([0.5, 0.32, 0.31, 0.30, 0.29, 0.15], 1, 1),
        ([0.5, 0.32, 0.31, 0.30, 0.29, 0.15, 0.15, 0.15], 2, 5),
        ([1, 0.98, 0.95, 0.9, 0.88, 0.87, 0.80, 0.79], 1, 3),
        ([1, 0.98, 0.95, 0.9, 0.88, 0.87, 0.80, 0.79], 2, 6),
        ([1, 0.98, 0.95, 0.9, 0.88, 0.87, 0.80, 0.79], 3, 8),
        ([0.586835, 0.5450372, 0.34137487, 0.30482167, 0.2753393], 1, 2),
        ([0.36663342, 0.33818772, 0.045160502, 0.045160501], 1, 2),
        (LISTS["steps"], 1, 3),
        (LISTS["steps"], 2, 5),
        (LISTS["steps"], 3, 12),
    ],
)
def test_autocut_counts_jumps_as_weaviate_does(scores: list[float], jumps: int, length: int) -> None:
    assert autocut(np.array(scores), jumps) == length


def test_autocut_takes_distances_as_well() -> None:
    assert autocut(np.array([0.1, 0.12, 0.13, 0.8, 0.82])) == 3


def test_the_last_score_can_be_a_jump() -> None:
    assert autocut(np.array([1.0, 0.9, 0.8, 0.1, 0.0, -2.0]), 2) == 5


@pytest.mark.parametrize(("alpha", "length"), [(0.01, 3), (0.05, 3), (0.1, 4), (0.2, 7)])
def test_clean_surprise_keeps_more_with_a_greater_probability(alpha: float, length: int) -> None:
    assert surprise_clean(np.array(K30), alpha) == length


@pytest.mark.parametrize(("alpha", "length"), [(0.05, 3), (0.2, 4), (0.3, 5)])
def test_clean_surprise_counts_what_lies_beyond_a_tail_that_ends(alpha: float, length: int) -> None:
    assert surprise_clean(np.array(LISTS["steps"]), alpha) == length


def test_clean_surprise_fits_nothing_to_seven_scores() -> None:
    assert surprise_clean(np.array(LISTS["far-off last"])) == 7


@pytest.mark.parametrize("rule", RULES)
def test_nothing_is_kept_of_nothing(rule: Rule) -> None:
    assert rule(np.empty(0)) == 0


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scores", [[0.0] * 9, [0.0, -1.0], [-0.1, -0.2, -5.0], [0.3, 0.0, -0.2, -0.2]])
def test_scores_of_0_and_below_are_cut_somewhere(rule: Rule, scores: list[float]) -> None:
    assert 1 <= rule(np.array(scores)) <= len(scores)


def test_surprise_keeps_all_where_no_score_is_above_0() -> None:
    assert surprise(np.array([-0.1, -0.2, -5.0])) == 3
