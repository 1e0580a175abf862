"""A calibrated rule: log-odds and scores added up, cut, and turned into probabilities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from graph.recipe import RecipeError, make_recipe
from nodes.core.records import Vote
from nodes.evidence.aggregate_votes import aggregate_votes
from nodes.evidence.rule import EvidenceRule, add_up, judge, log_odds
from ranking.cutoffs import FixedThreshold, Share, TopK
from tests.nodes.builders import Bench, case, run_node

IDS = ["1", "2", "3"]
HALF = EvidenceRule(ranker_weight=0.5, cutoff=TopK(k=1))


def test_shares_of_votes_are_log_odds_with_half_a_vote_on_either_side() -> None:
    found = log_odds(IDS, {"1": 0, "2": 2, "3": 4}, 4, None)
    assert found.tolist() == pytest.approx([math.log(0.5 / 4.5), 0.0, math.log(4.5 / 0.5)])


def test_told_probabilities_count_instead_of_shares() -> None:
    told: dict[str, float | None] = {"1": 0.2, "2": 0.5, "3": 0.0}
    found = log_odds(IDS, {"1": 1, "2": 0, "3": 1}, 1, told)
    assert found.tolist() == pytest.approx([math.log(0.25), 0.0, math.log(0.00005 / 0.99995)])


def test_a_sentence_without_a_probability_is_the_least_likely_of_its_note() -> None:
    found = log_odds(IDS, {"1": 1, "2": 1, "3": 0}, 1, {"1": 0.5, "2": None, "3": 0.2})
    assert found.tolist() == pytest.approx([0.0, math.log(0.25), math.log(0.25)])


def test_probabilities_of_a_few_sentences_are_not_mixed_with_shares() -> None:
    counts = {"1": 1, "2": 0, "3": 1}
    assert log_odds(IDS, counts, 1, {"1": 0.2, "2": None}).tolist() == log_odds(IDS, counts, 1, None).tolist()


def test_standardised_values_forget_place_and_width() -> None:
    model, ranker = np.array([1.0, 2.0, 6.0]), np.array([0.3, 0.1, 0.2])
    assert add_up(HALF, model, ranker).tolist() == pytest.approx(add_up(HALF, 7 * model - 3, ranker).tolist())
    plain = EvidenceRule(ranker_weight=0.25, scale="none", cutoff=TopK(k=1))
    assert add_up(plain, model, ranker).tolist() == pytest.approx([0.825, 1.525, 4.55])


def test_a_rule_selects_and_says_how_sure_it_is() -> None:
    rule = EvidenceRule(ranker_weight=1, scale="none", cutoff=Share(share=0.34), slope=1.0, intercept=0.0)
    judged = judge(rule, None, np.array([-2.0, 3.0, 0.5]))
    right = [1 / (1 + math.exp(-value)) for value in (2.0, 3.0, -0.5)]
    assert judged.chosen == [1]
    assert judged.confidence == pytest.approx(sum(right) / 3, abs=5e-5)
    assert judge(rule.model_copy(update={"slope": None}), None, np.array([1.0])).confidence is None


@pytest.mark.parametrize(
    ("evidence", "fault"),
    [
        (
            {"rule": {"ranker_weight": 0.5, "cutoff": {"rule": "top_k"}}},
            "evidence: rule.ranker_weight is 0.5",
        ),
        (
            {"voters": "ranker", "rule": {"ranker_weight": 0, "cutoff": {"rule": "top_k"}}},
            "evidence: rule.ranker_weight is 0, but voters is 'ranker'",
        ),
        (
            {"votes": "3..9", "rule": {"ranker_weight": 0, "cutoff": {"rule": "top_k"}}},
            "evidence: rule is set, but votes is 3..9",
        ),
        (
            {"voters": "both", "ranker": "bm25", "rule": {"ranker_weight": 0.5, "scale": "none"}},
            "evidence.rule.cutoff: Field required",
        ),
        (
            {"rule": {"ranker_weight": 0, "cutoff": {"rule": "threshold", "tau": 0.5}}},
            "evidence.rule: cutoff.rule is 'threshold', but scale is 'case'",
        ),
        (
            {
                "voters": "both",
                "ranker": "bm25",
                "rule": {"ranker_weight": 0.5, "scale": "none", "cutoff": {"rule": "threshold"}},
            },
            "evidence: rule.scale is 'none', but scores of bm25 are not log-odds",
        ),
    ],
)
def test_a_rule_that_cannot_be_applied_names_its_field(evidence: dict[str, Any], fault: str) -> None:
    with pytest.raises(RecipeError) as caught:
        make_recipe({"system": "tamu", "evidence": evidence}, "mine.yaml")
    assert str(caught.value).startswith(f"recipe mine.yaml: {fault}")


def test_a_confidence_needs_a_rule_that_tells_one() -> None:
    rule = {"ranker_weight": 0, "cutoff": {"rule": "top_k"}}
    values = {"system": "tamu", "evidence": {"rule": rule}, "review": {"confidence": 0.9}}
    with pytest.raises(RecipeError, match=r"evidence\.rule has no slope"):
        make_recipe(values, "mine.yaml")


async def test_the_rule_decides_in_place_of_the_threshold(bench: Bench) -> None:
    rule = {"ranker_weight": 0.5, "cutoff": {"rule": "top_k", "k": 2}, "slope": 2.0, "intercept": -1.0}
    context = bench.context(
        case(note=["a", "b", "c"]), evidence={"voters": "both", "votes": 2, "threshold": 3, "rule": rule}
    )
    state = {
        "case_id": "q",
        "votes": [Vote(vote=0, essential=["1"]), Vote(vote=1, essential=["1", "2"])],
        "asked_votes": 2,
        "ranker_vote": Vote(vote=2, essential=["3"]),
        "ranker_scores": {"1": 0.0, "2": 0.5, "3": 0.1},
    }
    update = await run_node(aggregate_votes, state, context)
    assert update["vote_counts"] == {"1": 2, "2": 1, "3": 1}
    parsed = EvidenceRule.model_validate(rule)
    model = log_odds(IDS, {"1": 2, "2": 1, "3": 0}, 2, None)
    judged = judge(parsed, model, np.array([0.0, 0.5, 0.1]))
    chosen = [IDS[position] for position in judged.chosen]
    assert update["evidence"] == {"threshold": chosen, "high_recall": chosen, "low_recall": chosen}
    assert update["case_confidence"] == judged.confidence
    (made,) = update["decisions"]
    assert made["because"] == f"2 of 3 sentences by the rule {parsed}"
    assert list(made["facts"]["probabilities"]) == IDS


@pytest.mark.parametrize(("highest", "chosen"), [(-1.0, []), (1.0, [1])])
def test_a_rule_with_a_least_probability_may_choose_none(highest: float, chosen: list[int]) -> None:
    rule = EvidenceRule(ranker_weight=0.5, cutoff=TopK(k=1), least=0.5)
    model, ranker = np.array([-2.0, highest, -3.0]), np.array([0.0, 3.0, 1.0])
    assert judge(rule, model, ranker).chosen == chosen
    assert "none below P 0.5" in str(rule)


def test_a_least_probability_needs_the_model() -> None:
    with pytest.raises(ValueError, match="ranker_weight is 1"):
        EvidenceRule(ranker_weight=1, cutoff=TopK(k=1), least=0.5)


def test_a_rule_reads_as_it_is_written() -> None:
    assert str(HALF) == "0.50 model + 0.50 ranker, standardised, cut-off top_k=1"
    plain = EvidenceRule(ranker_weight=1, scale="none", cutoff=FixedThreshold(tau=0.2))
    assert str(plain) == "ranker, cut-off threshold=0.2"
