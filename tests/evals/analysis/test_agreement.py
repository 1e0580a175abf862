from __future__ import annotations

from dataclasses import replace

import pytest

from evals.analysis.voted_cases import vote_agreement
from tests.evals.analysis.examples import voted


def test_votes_that_agree_on_everything() -> None:
    found = vote_agreement([voted("1", "303")], 3)
    assert found is not None
    assert (found.alpha, found.unanimous, found.pairwise) == (1.0, 1.0, 1.0)


def test_alpha_by_hand() -> None:
    # Three votes on two sentences: 3 and 1 of 3 essential. Values: 4 essential, 2 not; 6 in all.
    # Observed disagreement: sentence 2 has 2*1*2/(3-1) = 2 of 6. Expected: 2*4*2/(6*5) = 16/30.
    found = vote_agreement([voted("1", "31")], 3)
    assert found is not None
    assert found.alpha == pytest.approx(1 - (2 / 6) / (16 / 30))
    assert found.pairwise == pytest.approx((1 + 1 / 3) / 2)
    assert found.unanimous == 0.5


def test_alpha_says_nothing_where_all_votes_are_alike() -> None:
    found = vote_agreement([voted("1", "000")], 3)
    assert found is not None
    assert found.alpha is None
    assert found.unanimous == 1.0


def test_a_single_vote_agrees_with_nobody() -> None:
    assert vote_agreement([voted("1", "10", usable=1)], 1) is None


def test_sentences_by_count_are_of_cases_with_all_votes() -> None:
    found = vote_agreement([voted("1", "3101"), voted("2", "22", usable=2)], 3)
    assert found is not None
    assert found.by_count == {0: 1, 1: 2, 3: 1}


def test_a_ranker_whose_vote_counts_twice_does_not_agree_with_itself() -> None:
    # One vote of a model against one of a ranker, which counts for two: counts are 2 and 1 of 3.
    ranked = replace(voted("1", "21"), ranked=frozenset("1"), ranker_weight=2)
    found = vote_agreement([ranked], 3)
    assert found is not None
    assert (found.pairwise, found.unanimous) == (0, 0)
    assert found.by_count == {1: 1, 2: 1}
