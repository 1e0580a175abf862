from __future__ import annotations

import math

import pytest

from ranking.scoring import Counts, average_precision, count_characters, count_sentences, macro, micro

CASES = [({1, 2, 3}, {1, 2, 5}), ({2}, {1, 2}), ({1, 4}, set[int]())]


def counts() -> list[Counts]:
    return [count_sentences(chosen, [one in gold for one in range(6)]) for gold, chosen in CASES]


def test_micro_pools_the_decisions_of_all_cases() -> None:
    assert micro(counts()) == pytest.approx((0.6, 0.5, 0.5455), abs=5e-5)


def test_macro_is_the_mean_of_the_cases() -> None:
    assert macro(counts()) == pytest.approx((0.3889, 0.5556, 0.4444), abs=5e-5)


@pytest.mark.parametrize(
    ("pooled", "published"),
    [
        (Counts(42, 84, 121), (0.5, 0.3471, 0.4098)),
        (Counts(102, 267, 121), (0.3820, 0.8430, 0.5258)),
        (Counts(76, 160, 121), (0.4750, 0.6281, 0.5409)),
        (Counts(73, 140, 121), (0.5214, 0.6033, 0.5594)),
        (Counts(66, 120, 121), (0.55, 0.5455, 0.5477)),
        (Counts(78, 160, 121), (0.4875, 0.6446, 0.5552)),
        (Counts(70, 128, 121), (0.5469, 0.5785, 0.5623)),
    ],
)
def test_published_rows_come_out_of_their_counts(
    pooled: Counts, published: tuple[float, float, float]
) -> None:
    assert micro([pooled]) == pytest.approx(published, abs=6e-5)


@pytest.mark.parametrize(
    ("chosen", "labels", "f1"), [([], [False], 1), ([0], [False], 0), ([], [True], 0), ([], [], 1)]
)
def test_empty_selections_score_as_in_the_official_scorer(
    chosen: list[int], labels: list[bool], f1: float
) -> None:
    one = [count_sentences(chosen, labels)]
    assert micro(one).f1 == macro(one).f1 == f1


def test_no_cases_have_no_mean() -> None:
    assert all(map(math.isnan, macro([])))


def test_character_scores_weigh_sentences_by_their_length() -> None:
    lengths = [23, 14, 31]
    first = count_characters([0, 1], [True, False, True], lengths)
    second = count_characters([2], [False, False, True], lengths)
    assert (first + second) == (23, 37, 54, 31, 31, 31)
    assert micro([first, second]) == pytest.approx((0.794118, 0.635294, 0.705882), abs=1e-6)


def test_sentence_scores_of_the_same_selections_differ() -> None:
    first = count_sentences([0, 1], [True, False, True])
    second = count_sentences([2], [False, False, True])
    assert micro([first, second]) == pytest.approx((2 / 3, 2 / 3, 2 / 3))


def test_average_precision_is_the_mean_at_the_hits() -> None:
    assert average_precision([0.9, 0.8, 0.7, 0.6], [True, False, True, False]) == pytest.approx(
        (1 + 2 / 3) / 2
    )


def test_average_precision_takes_ties_in_document_order() -> None:
    assert average_precision([0, 0, 0], [False, True, False]) == pytest.approx(1 / 2)


def test_average_precision_needs_a_positive_sentence() -> None:
    assert average_precision([0.5], [False]) is None


def test_average_precision_needs_a_label_for_each_score() -> None:
    with pytest.raises(ValueError, match="1 labels for 2 scores"):
        average_precision([0.5, 0.1], [True])
