"""Routes of a recipe that asks for as many votes as its labels need."""

from __future__ import annotations

from typing import Any

import pytest

from tests.graph.routes import EVIDENCE, facts_of, route, run, times
from tests.nodes.builders import Bench, asked, by_sample, failing, flags, labels, script

ROUND = ["label_evidence", "reflect_on_labels", "check_votes"]
RANGE = {"votes": "3..9", "threshold": 5}


def samples(context: Any, role: Any) -> list[int]:
    return sorted(call.sample for call in asked(context, role))


async def test_votes_are_asked_for_until_no_label_can_change(bench: Bench) -> None:
    context = bench.context(evidence=RANGE, replies=script(reflect=labels("2")))
    state = await run(context)
    assert route(state)[: len(EVIDENCE) + 6] == [*EVIDENCE[:2], *ROUND, *ROUND, "aggregate_votes"]
    assert samples(context, "label") == samples(context, "reflect") == [0, 1, 2, 3, 4]
    assert state["evidence"]["threshold"] == ["2"]
    assert (state["asked_votes"], state["usable_votes"]) == (5, 5)


async def test_votes_that_differ_go_to_the_last(bench: Bench) -> None:
    replies = script(reflect=by_sample(*[labels("1"), labels("2")] * 4, labels("2")))
    context = bench.context(evidence=RANGE, replies=replies)
    state = await run(context)
    assert samples(context, "reflect") == list(range(9))
    assert state["evidence"]["threshold"] == ["2"]
    assert [one["asks_for"] for one in facts_of(state, "check_votes")] == [3, 2, 1, 0]


async def test_each_vote_is_reflected_on_once(bench: Bench) -> None:
    replies = script(reflect=by_sample(*[labels("1"), labels("2")] * 4, labels("2")))
    state = await run(bench.context(evidence=RANGE, replies=replies))
    assert [vote["vote"] for vote in state["reflected_votes"]] == list(range(9))
    assert times(state, "aggregate_votes") == times(state, "choose_answer_evidence") == 1
    assert times(state, "generate_answer") == 1


async def test_without_reflection_the_first_labels_are_checked(bench: Bench) -> None:
    context = bench.context(evidence={**RANGE, "reflection": False}, replies=script(label=labels("3")))
    state = await run(context)
    assert samples(context, "label") == [0, 1, 2, 3, 4]
    assert "reflect_on_labels" not in route(state)
    assert state["evidence"]["threshold"] == ["3"]


async def test_a_failed_reflection_goes_on_to_the_check(bench: Bench) -> None:
    replies = script(label=labels("1"), reflect=failing("timeout", 0, 1, 2, 3, 4))
    state = await run(bench.context(evidence=RANGE, replies=replies))
    assert (state["asked_votes"], state["evidence"]["threshold"]) == (5, ["1"])
    assert times(state, "aggregate_votes") == 1
    assert flags(state) == {"failed_reflections"}


@pytest.mark.parametrize("reflection", [True, False])
async def test_a_round_of_failed_votes_does_not_end_the_case(bench: Bench, reflection: bool) -> None:
    replies = script(label=failing("timeout", 3, 4, otherwise=labels("1")), reflect=labels("1"))
    evidence = {**RANGE, "reflection": reflection}
    state = await run(bench.context(evidence=evidence, replies=replies, one_by_one=True))
    # Two of nine votes are missing, so four of seven will do; the sixth vote is the fourth usable one.
    assert (state["asked_votes"], state["usable_votes"]) == (6, 4)
    assert facts_of(state, "aggregate_votes")[0]["threshold"] == 4
    assert state["evidence"]["threshold"] == ["1"]
    assert flags(state) == {"missing_votes"}


async def test_a_second_run_on_the_journal_asks_nothing(bench: Bench) -> None:
    context = bench.context(evidence=RANGE)
    first = await run(context)
    requests = len(asked(context))
    assert (await run(context))["vote_counts"] == first["vote_counts"]
    assert len(asked(context)) == requests


async def test_stop_after_evidence_stops_after_the_last_round(bench: Bench) -> None:
    state = await run(bench.context(evidence=RANGE, stop_after="evidence"))
    assert route(state)[-2:] == ["check_votes", "aggregate_votes"]


@pytest.mark.parametrize("votes", [5, "5..5"])
async def test_a_fixed_number_of_votes_is_never_checked(bench: Bench, votes: object) -> None:
    context = bench.context(evidence={"votes": votes})
    state = await run(context)
    assert "check_votes" not in route(state)
    assert samples(context, "label") == [0, 1, 2, 3, 4]
    assert "more_votes" not in state
