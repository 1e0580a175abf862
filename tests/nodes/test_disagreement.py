from __future__ import annotations

import pytest

from graph.tamu import TamuRecipe
from nodes.evidence.disagreement import contested, disagreement, needs_review
from nodes.evidence.settings import ReviewSettings

COUNTS = {"1": 3, "2": 2, "3": 1, "4": 0}


def test_sentences_that_some_votes_name_are_contested_in_note_order() -> None:
    assert contested(COUNTS, 3) == ["2", "3"]


def test_disagreement_is_the_share_of_contested_sentences() -> None:
    assert disagreement(COUNTS, 3) == 0.5


@pytest.mark.parametrize(("counts", "usable"), [({"1": 1, "2": 0}, 1), ({}, 3), ({"1": 3, "2": 0}, 3)])
def test_one_vote_no_sentence_or_equal_votes_do_not_disagree(counts: dict[str, int], usable: int) -> None:
    assert disagreement(counts, usable) == 0


@pytest.mark.parametrize(("limit", "asked"), [(None, False), (0.5, False), (0.49, True), (0.0, True)])
def test_a_person_is_asked_above_the_limit_alone(limit: float | None, asked: bool) -> None:
    assert needs_review(ReviewSettings(disagreement=limit), COUNTS, 3) is asked


def test_a_recipe_without_votes_cannot_ask_for_a_review() -> None:
    with pytest.raises(ValueError, match="no one votes"):
        TamuRecipe.model_validate(
            {"stop_after": "question", "question": {"interpret": "always"}, "review": {"disagreement": 0}}
        )
