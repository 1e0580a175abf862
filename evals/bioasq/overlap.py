"""Precision, recall and F of one question."""

from __future__ import annotations

from typing import NamedTuple


class Scores(NamedTuple):
    """Each 0 to 1; F is 0 unless both others are above."""

    precision: float
    recall: float
    f1: float


def scores(common: float, given: float, wanted: float) -> Scores:
    """From what is common, what is given and what is wanted; nothing given or wanted is 0."""
    precision = common / given if given else 0.0
    recall = common / wanted if wanted else 0.0
    both = precision + recall
    return Scores(precision, recall, 2 * precision * recall / both if precision and recall else 0.0)
