"""What a recipe says of who votes on evidence."""

from __future__ import annotations

from typing import Any

import pytest

from graph.recipe import RecipeError, check_prompts, load_recipe, make_recipe, override
from graph.tamu import SYSTEM, TamuRecipe
from nodes.core.recipe import Recipe
from nodes.evidence.rank_evidence import RANK_EVIDENCE
from nodes.evidence.settings import EvidenceSettings
from prompts import load_prompts
from ranking.cutoffs import FixedThreshold, TopK
from tests.prompts.versions import ONE_MESSAGE


def voting(recipe: Recipe) -> EvidenceSettings:
    return recipe.section(EvidenceSettings)


def evidence(values: Any) -> EvidenceSettings:
    return voting(make_recipe({"system": "tamu", "evidence": values}, "mine.yaml"))


def test_one_word_names_the_voters() -> None:
    assert evidence("ranker") == evidence({"voters": "ranker"})
    assert evidence("both").voters == "both"


def test_as_an_override_the_word_keeps_all_other_values() -> None:
    changed = voting(override(load_recipe("demo"), {"evidence": "both"}, "demo"))
    assert (changed.voters, changed.votes, changed.temperature) == ("both", 3, 1.5)


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ("rankers", "evidence.voters: Input should be 'llm', 'ranker' or 'both'"),
        ({"voters": "both", "threshold": 7}, "evidence: threshold 7 is above the number of votes 6"),
        (
            {"voters": "both", "minimum_votes": 6},
            "evidence: minimum_votes 6 is above the number of votes 5",
        ),
        ({"ranker_votes": 0}, "evidence.ranker_votes: "),
        ({"cutoff": {"rule": "best"}}, "evidence.cutoff: "),
        ({"cutoff": {"rule": "top_k", "k": 0}}, "evidence.cutoff.top_k.k: "),
        ({"cutoff": {"rule": "top_k", "n": 2}}, "unknown field 'evidence.cutoff.top_k.n'"),
    ],
)
def test_a_wrong_value_names_its_field(values: Any, fault: str) -> None:
    with pytest.raises(RecipeError) as caught:
        evidence(values)
    assert str(caught.value).startswith(f"recipe mine.yaml: {fault}")
    assert "\n" not in str(caught.value)


def test_a_cut_off_is_a_rule_with_its_values() -> None:
    assert evidence({"cutoff": {"rule": "top_k", "k": 5}}).cutoff == TopK(k=5)


@pytest.mark.parametrize(
    "changes",
    [
        {"evidence.cutoff.rule": "threshold", "evidence.cutoff.tau": 0.2},
        {"evidence.cutoff": {"rule": "threshold", "tau": 0.2}},
    ],
)
def test_a_cut_off_can_be_overridden(changes: dict[str, Any]) -> None:
    changed = override(load_recipe("tamu"), changes, "tamu")
    assert voting(changed).cutoff == FixedThreshold(tau=0.2)


@pytest.mark.parametrize(
    ("voters", "of_model", "of_ranker", "threshold"),
    [("llm", 5, 0, 3), ("both", 5, 2, 3), ("ranker", 0, 1, 1)],
)
def test_votes_are_those_of_the_model_and_of_the_ranker(
    voters: str, of_model: int, of_ranker: int, threshold: int
) -> None:
    found = evidence({"voters": voters, "ranker_votes": 2})
    assert (found.most_votes, found.ranker_weight) == (of_model, of_ranker)
    assert (found.all_votes, found.vote_threshold) == (of_model + of_ranker, threshold)


def test_a_ranker_alone_is_held_to_no_value_of_the_votes() -> None:
    found = evidence({"voters": "ranker", "votes": "1..2", "threshold": 9, "minimum_votes": 9})
    assert not found.adaptive


@pytest.mark.parametrize(
    ("values", "ranks", "intent", "demonstrations"),
    [
        ({"evidence": "both", "stop_after": "evidence"}, True, False, True),
        ({"evidence": "ranker", "stop_after": "evidence"}, True, False, False),
        ({"evidence": "ranker"}, True, True, True),
        ({"evidence": "ranker", "answer": {"demonstrations": 0}}, True, True, False),
        (
            {"evidence": {"voters": "ranker", "intent_aware": True}, "stop_after": "evidence"},
            True,
            False,
            False,
        ),
        (
            {"evidence": "ranker", "stop_after": "question", "question": {"interpret": "always"}},
            False,
            False,
            True,
        ),
        ({}, False, True, True),
    ],
)
def test_a_recipe_knows_what_it_needs(
    values: dict[str, Any], ranks: bool, intent: bool, demonstrations: bool
) -> None:
    recipe = TamuRecipe.model_validate(values)
    needs = (not RANK_EVIDENCE.is_off(recipe), recipe.needs_intent, recipe.shows_demonstrations)
    assert needs == (ranks, intent, demonstrations)


def test_prompts_that_nobody_reads_need_not_ask_for_ids() -> None:
    recipe = make_recipe({"system": "tamu", "evidence": {"voters": "ranker", "reply": "ids"}}, "mine.yaml")
    check_prompts(SYSTEM, recipe, load_prompts(ONE_MESSAGE, SYSTEM.contracts), "mine.yaml")


def test_a_mixed_vote_is_one_packaged_recipe_away() -> None:
    mixed, alone = voting(load_recipe("tamu-mixed")), voting(load_recipe("tamu-ranker"))
    assert (mixed.voters, mixed.all_votes, mixed.threshold) == ("both", 5, 3)
    assert (alone.voters, alone.ranker) == ("ranker", "logistic")
