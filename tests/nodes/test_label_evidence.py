from __future__ import annotations

from typing import Any

import pytest

from nodes.core.context import Context
from nodes.core.failure import NodeFailure
from nodes.evidence.label_evidence import label_evidence, prompt_order
from nodes.evidence.reply_forms import reply_tokens
from nodes.evidence.voting import labelling_prompt
from tests.nodes.builders import (
    Bench,
    asked,
    by_sample,
    case,
    count_words,
    facts,
    failing,
    flags,
    in_turn,
    labels,
    run_node,
    script,
    shown,
)

STATE = {"case_id": "q", "evidence_demonstrations": []}
CHOSEN = ["p4", "p1", "p3"]


async def words(context: Context, *demonstrations: str) -> int:
    """Length of the labelling prompt of the case "q" as `count_words` has it."""
    q = context.cases["q"]
    return await count_words(labelling_prompt(context, q, q.question, demonstrations))


async def test_each_sample_is_a_vote(bench: Bench) -> None:
    replies = script(label=by_sample(labels("1"), labels("1", "3"), labels()))
    update = await run_node(label_evidence, STATE, bench.context(replies=replies))
    assert [vote["essential"] for vote in update["votes"]] == [["1"], ["1", "3"], [], [], []]
    assert [vote["vote"] for vote in update["votes"]] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("one_by_one", [False, True])
async def test_all_votes_are_on_one_prompt(bench: Bench, one_by_one: bool) -> None:
    context = bench.context(one_by_one=one_by_one)
    await run_node(label_evidence, {**STATE, "evidence_demonstrations": shown(*CHOSEN)}, context)
    prompts = [call.prompt for call in asked(context, "label")]
    assert len(prompts) == 5
    assert all(prompt == prompts[0] for prompt in prompts)


async def test_a_vote_without_label_map_is_missing(bench: Bench) -> None:
    replies = script(label=by_sample("no", labels("1")))
    update = await run_node(label_evidence, STATE, bench.context(replies=replies))
    assert [vote["vote"] for vote in update["votes"]] == [1, 2, 3, 4]
    assert flags(update) == {"missing_votes"}


async def test_a_failed_request_takes_no_other_vote_with_it(bench: Bench) -> None:
    replies = script(label=failing("timeout", 3, otherwise=labels("2")))
    update = await run_node(label_evidence, STATE, bench.context(replies=replies, one_by_one=True))
    assert [vote["vote"] for vote in update["votes"]] == [0, 1, 2, 4]
    assert facts(update)["failed_votes"] == {"3": "timeout: scripted: scripted timeout"}


async def test_an_incomplete_vote_is_corrected(bench: Bench) -> None:
    replies = script(label=in_turn(labels("1", of=["1"]), labels("1", "2")))
    context = bench.context(replies=replies, evidence={"votes": 1, "threshold": 1})
    update = await run_node(label_evidence, STATE, context)
    assert update["votes"] == [{"vote": 0, "essential": ["1", "2"]}]
    assert "missing sentence ids: 2, 3" in asked(context)[-1].prompt[-1][1]


async def test_a_vote_that_stays_incomplete_is_completed_and_told(bench: Bench) -> None:
    replies = script(label=labels("1", of=["1"]))
    context = bench.context(replies=replies, evidence={"votes": 1, "threshold": 1})
    update = await run_node(label_evidence, STATE, context)
    assert update["votes"] == [{"vote": 0, "essential": ["1"]}]
    assert facts(update)["rescued_votes"] == {"0": "missing sentence ids: 2, 3"}
    assert update["decisions"][0]["flags"] == ["incomplete_replies"]


@pytest.mark.parametrize("failed", [3, 4, 5])
async def test_a_majority_of_failed_votes_fails_the_case_with_their_class(bench: Bench, failed: int) -> None:
    replies = script(label=failing("timeout", *range(failed), otherwise=labels("2")))
    with pytest.raises(NodeFailure, match=f"{5 - failed} of 5 votes came back, 3 needed") as caught:
        await run_node(label_evidence, STATE, bench.context(replies=replies, one_by_one=True))
    assert caught.value.error_class == "timeout"


async def test_a_failed_case_keeps_the_calls_that_were_paid_for(bench: Bench) -> None:
    replies = script(label=failing("timeout", 0, 1, 2, otherwise=labels("2")))
    with pytest.raises(NodeFailure) as caught:
        await run_node(label_evidence, STATE, bench.context(replies=replies, one_by_one=True))
    assert [call.sample for call in caught.value.calls] == [3, 4]


async def test_the_recipe_says_how_few_votes_will_do(bench: Bench) -> None:
    replies = script(label=failing("timeout", 0, 1, 2, 3, otherwise=labels("2")))
    context = bench.context(replies=replies, one_by_one=True, evidence={"minimum_votes": 1})
    update = await run_node(label_evidence, STATE, context)
    assert update["votes"] == [{"vote": 4, "essential": ["2"]}]


async def test_a_note_without_sentences_is_invalid_input(bench: Bench) -> None:
    with pytest.raises(NodeFailure) as caught:
        await run_node(label_evidence, STATE, bench.context(case(note=[])))
    assert caught.value.error_class == "invalid_input"


@pytest.mark.parametrize("nearest_first", [["b", "a", "c"], ["c", "b", "a"], ["a", "b", "c"]])
def test_canonical_order_is_the_same_whatever_the_distances(nearest_first: list[str]) -> None:
    assert prompt_order(nearest_first, "canonical") == ["a", "b", "c"]


def test_similar_last_puts_the_nearest_beside_the_case() -> None:
    assert prompt_order(["b", "a", "c"], "similar_last") == ["c", "a", "b"]


async def test_the_same_demonstrations_make_the_same_prompt(bench: Bench) -> None:
    prompts = []
    for order in (CHOSEN, CHOSEN[::-1]):
        context = bench.context()
        update = await run_node(label_evidence, {**STATE, "evidence_demonstrations": shown(*order)}, context)
        assert update["shown_demonstrations"] == sorted(CHOSEN)
        prompts.append(asked(context)[0].prompt)
    assert prompts[0] == prompts[1]


async def test_a_full_window_leaves_out_the_farthest_demonstrations(bench: Bench) -> None:
    short: dict[str, Any] = {"evidence": {"reflection": False}}
    room = await words(bench.context(), "p4", "p1") + reply_tokens(3)
    state = {**STATE, "evidence_demonstrations": shown(*CHOSEN)}
    update = await run_node(label_evidence, state, bench.context(context_length=room, **short))
    assert update["shown_demonstrations"] == ["p1", "p4"]
    assert facts(update)["dropped_demonstrations"] == ["p3"]
    assert flags(update) == {"dropped_demonstrations"}


async def test_a_window_one_token_smaller_leaves_out_one_more(bench: Bench) -> None:
    room = await words(bench.context(), "p4", "p1") + reply_tokens(3) - 1
    context = bench.context(context_length=room, evidence={"reflection": False})
    update = await run_node(label_evidence, {**STATE, "evidence_demonstrations": shown(*CHOSEN)}, context)
    assert update["shown_demonstrations"] == ["p4"]


async def test_room_is_kept_for_the_reflection(bench: Bench) -> None:
    room = await words(bench.context(), *CHOSEN) + reply_tokens(3)
    state = {**STATE, "evidence_demonstrations": shown(*CHOSEN)}
    update = await run_node(label_evidence, state, bench.context(context_length=room))
    assert update["shown_demonstrations"] == []


async def test_a_case_that_does_not_fit_alone_fails(bench: Bench) -> None:
    room = await words(bench.context()) + reply_tokens(3) - 1
    context = bench.context(context_length=room)
    with pytest.raises(NodeFailure, match="the case alone is 1 tokens longer") as caught:
        await run_node(label_evidence, {**STATE, "evidence_demonstrations": shown(*CHOSEN)}, context)
    assert caught.value.error_class == "context_length"
    assert asked(context) == []


RANGE = {"votes": "3..9", "threshold": 5}
SECOND_ROUND = {
    **STATE,
    "evidence_demonstrations": shown(*CHOSEN),
    "shown_demonstrations": ["p1", "p4"],
    "votes": [{"vote": 0, "essential": ["1"]}, {"vote": 2, "essential": []}],
    "asked_votes": 3,
    "more_votes": 2,
}


async def test_a_range_asks_for_its_first_number(bench: Bench) -> None:
    update = await run_node(label_evidence, STATE, bench.context(evidence=RANGE))
    assert ([vote["vote"] for vote in update["votes"]], update["asked_votes"]) == ([0, 1, 2], 3)


async def test_further_votes_go_on_where_the_last_round_ended(bench: Bench) -> None:
    context = bench.context(evidence=RANGE)
    update = await run_node(label_evidence, SECOND_ROUND, context)
    assert [vote["vote"] for vote in update["votes"]] == [3, 4]
    assert [call.sample for call in asked(context)] == [3, 4]
    assert update["asked_votes"] == 5
    assert update["decisions"][0]["because"] == "2 of 2 further votes on one prompt with 2 demonstrations"


async def test_further_votes_are_on_the_prompt_of_the_first(bench: Bench) -> None:
    context = bench.context(evidence=RANGE)
    await run_node(label_evidence, SECOND_ROUND, context)
    await run_node(label_evidence, {**STATE, "evidence_demonstrations": shown("p1", "p4")}, context)
    assert len({str(call.prompt) for call in asked(context)}) == 1


async def test_a_failed_further_vote_is_named_by_its_number(bench: Bench) -> None:
    replies = script(label=failing("timeout", 3, otherwise=labels("2")))
    context = bench.context(evidence=RANGE, replies=replies, one_by_one=True)
    update = await run_node(label_evidence, SECOND_ROUND, context)
    assert facts(update)["failed_votes"] == {"3": "timeout: scripted: scripted timeout"}
    assert [vote["vote"] for vote in update["votes"]] == [4]


async def test_a_majority_is_of_the_votes_asked_so_far(bench: Bench) -> None:
    replies = script(label=failing("timeout", 3, 4, otherwise=labels("2")))
    context = bench.context(evidence=RANGE, replies=replies, one_by_one=True)
    with pytest.raises(NodeFailure, match="2 of 5 votes came back, 3 needed"):
        await run_node(label_evidence, SECOND_ROUND, context)
