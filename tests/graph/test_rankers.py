"""Routes of recipes in which a ranker votes on evidence, with or without the model."""

from __future__ import annotations

from typing import Any

import pytest

from nodes.core.failure import NodeFailure
from ranking.cutoffs import FixedThreshold, TopK
from ranking.rankers.bm25 import Bm25Ranker
from tests.graph.routes import ANSWERING, EVIDENCE, facts_of, roles, route, run, times
from tests.nodes.builders import (
    TWO_SENTENCES,
    Bench,
    asked,
    by_sample,
    case,
    failing,
    flags,
    in_turn,
    labels,
    script,
)

ALONE: dict[str, Any] = {"evidence": "ranker"}
FIRST = Bm25Ranker(TopK(k=1))
"""Votes for sentence 1 of the case."""


def both(**evidence: Any) -> dict[str, Any]:
    return {"evidence": {"voters": "both", **evidence}}


async def test_a_ranker_alone_needs_no_demonstrations_no_votes_and_no_reflection(bench: Bench) -> None:
    context = bench.context(ranker=FIRST, **ALONE)
    state = await run(context)
    assert sorted(route(state)[:2]) == ["classify_intent", "rank_evidence"]
    assert route(state)[2:] == [
        "aggregate_votes",
        "choose_answer_evidence",
        "retrieve_answer_demonstrations",
        *ANSWERING,
    ]
    assert roles(context) == {"classify", "answer"}
    assert state["answer"] == TWO_SENTENCES
    assert flags(state) == set()


async def test_the_selection_of_a_ranker_alone_is_the_evidence_of_every_setting(bench: Bench) -> None:
    state = await run(bench.context(ranker=FIRST, **ALONE))
    assert state["evidence"] == {"threshold": ["1"], "high_recall": ["1"], "low_recall": ["1"]}
    assert (state["vote_counts"], state["usable_votes"]) == ({"1": 1, "2": 0, "3": 0}, 1)


async def test_evidence_alone_by_a_ranker_asks_nothing(bench: Bench) -> None:
    context = bench.context(stop_after="evidence", **ALONE)
    state = await run(context)
    assert route(state) == ["rank_evidence", "aggregate_votes"]
    assert asked(context) == []


async def test_demonstrations_by_intent_are_no_matter_of_a_ranker(bench: Bench) -> None:
    evidence = {"voters": "ranker", "intent_aware": True}
    state = await run(bench.context(evidence=evidence))
    assert "retrieve_evidence_demonstrations" not in route(state)
    assert times(state, "aggregate_votes") == times(state, "choose_answer_evidence") == 1


async def test_without_a_clinician_question_the_patients_is_ranked_for(bench: Bench) -> None:
    state = await run(bench.context(case(question=" ", phrases=["heparin"]), ranker=FIRST, **ALONE))
    assert route(state)[0] == "adopt_patient_question"
    assert state["ranker_vote"]["essential"] == ["1"]


async def test_beside_a_ranker_alone_everything_else_of_the_recipe_runs_once(bench: Bench) -> None:
    settings: dict[str, Any] = {"question": {"interpret": "always"}, "alignment": {"answer": "generated"}}
    state = await run(bench.context(**ALONE, **settings))
    once = ("interpret_question", "classify_intent", "rank_evidence", "aggregate_votes", "align_answer")
    assert [times(state, node) for node in once] == [1] * 5


async def test_an_interpreted_question_is_ranked_for_where_there_is_none(bench: Bench) -> None:
    state = await run(bench.context(case(question=""), question={"interpret": "always"}, **ALONE))
    assert route(state)[0] == "interpret_question"
    assert times(state, "interpret_question") == times(state, "rank_evidence") == 1
    assert state["answer"] == TWO_SENTENCES


async def test_an_empty_selection_is_widened_to_the_best_ranked(bench: Bench) -> None:
    nothing = Bm25Ranker(FixedThreshold(tau=1.0, fallback=False))
    state = await run(bench.context(ranker=nothing, **ALONE))
    assert state["answer_evidence"] == ["1"]
    assert flags(state) == {"no_essential_sentence", "widened_evidence"}


async def test_an_answer_of_a_ranked_case_can_be_sent_back(bench: Bench) -> None:
    replies = script(answer=in_turn("Too short.", TWO_SENTENCES))
    state = await run(bench.context(replies=replies, **ALONE))
    assert times(state, "generate_answer") == 2


@pytest.mark.parametrize("reflection", [True, False])
async def test_in_a_mixed_vote_both_are_counted_once(bench: Bench, reflection: bool) -> None:
    context = bench.context(
        ranker=FIRST,
        replies=script(label=labels("2"), reflect=labels("2")),
        **both(votes=2, threshold=2, reflection=reflection),
    )
    state = await run(context)
    assert state["vote_counts"] == {"1": 1, "2": 2, "3": 0}
    assert state["usable_votes"] == 3
    assert state["evidence"] == {"threshold": ["2"], "high_recall": ["1", "2"], "low_recall": ["2"]}
    assert times(state, "rank_evidence") == times(state, "aggregate_votes") == 1
    assert times(state, "choose_answer_evidence") == times(state, "generate_answer") == 1


async def test_the_ranker_votes_beside_the_first_votes_of_the_model(bench: Bench) -> None:
    state = await run(bench.context(**both()))
    assert route(state)[0] == EVIDENCE[0]
    assert set(route(state)[1:4]) == {"classify_intent", "label_evidence", "rank_evidence"}


async def test_the_weight_of_the_ranker_can_carry_a_label_over_the_threshold(bench: Bench) -> None:
    replies = script(label=by_sample(labels("1"), labels("2")))
    evidence = both(votes=2, ranker_votes=2, threshold=3, reflection=False)
    state = await run(bench.context(ranker=FIRST, replies=replies, **evidence))
    assert (state["vote_counts"], state["usable_votes"]) == ({"1": 3, "2": 1, "3": 0}, 4)
    assert state["evidence"]["threshold"] == ["1"]


@pytest.mark.parametrize(("voters", "asked_votes"), [("both", 3), ("llm", 4)])
async def test_further_votes_are_not_asked_for_where_the_ranker_settles_a_label(
    bench: Bench, voters: str, asked_votes: int
) -> None:
    evidence = {"voters": voters, "votes": "3..5", "threshold": 4, "reflection": False}
    context = bench.context(ranker=FIRST, replies=script(label=labels("1")), evidence=evidence)
    state = await run(context)
    assert state["asked_votes"] == asked_votes
    assert state["evidence"]["threshold"] == ["1"]


@pytest.mark.parametrize("failed", [[0], [0, 1, 2]])
async def test_failed_reflections_beside_a_ranker_are_aggregated_once(
    bench: Bench, failed: list[int]
) -> None:
    replies = script(label=labels("1"), reflect=failing("timeout", *failed, otherwise=labels("2")))
    state = await run(bench.context(ranker=FIRST, replies=replies, **both(votes=3)))
    assert times(state, "aggregate_votes") == times(state, "generate_answer") == 1
    assert state["usable_votes"] == 4


async def test_mixed_votes_in_rounds_are_reflected_on_and_aggregated_once(bench: Bench) -> None:
    replies = script(reflect=by_sample(*[labels("2"), labels("3")] * 5))
    state = await run(bench.context(ranker=FIRST, replies=replies, **both(votes="3..9", threshold=5)))
    assert times(state, "rank_evidence") == times(state, "aggregate_votes") == 1
    assert times(state, "choose_answer_evidence") == 1
    assert len(state["reflected_votes"]) == state["asked_votes"]
    assert state["usable_votes"] == state["asked_votes"] + 1


async def test_a_ranker_never_stands_in_for_a_model_that_fails(bench: Bench) -> None:
    replies = script(label=failing("connection"))
    with pytest.raises(NodeFailure) as caught:
        await run(bench.context(ranker=FIRST, replies=replies, **both(votes=2, ranker_votes=9, threshold=1)))
    assert caught.value.error_class == "connection"


async def test_a_missing_vote_scales_the_threshold_of_all_votes(bench: Bench) -> None:
    replies = script(label=failing("timeout", 1, otherwise=labels("2")))
    evidence = both(votes=5, threshold=6, reflection=False)
    state = await run(bench.context(ranker=FIRST, replies=replies, one_by_one=True, **evidence))
    assert (state["usable_votes"], facts_of(state, "aggregate_votes")[0]["threshold"]) == (5, 5)


async def test_mixed_votes_of_evidence_alone_end_after_their_count(bench: Bench) -> None:
    state = await run(bench.context(stop_after="evidence", **both()))
    assert route(state)[-1] == "aggregate_votes"
    assert times(state, "aggregate_votes") == 1


async def test_intent_aware_demonstrations_come_before_a_mixed_vote(bench: Bench) -> None:
    state = await run(bench.context(**both(intent_aware=True)))
    assert route(state)[:2] == ["classify_intent", "retrieve_evidence_demonstrations"]
    assert times(state, "rank_evidence") == times(state, "choose_answer_evidence") == 1
