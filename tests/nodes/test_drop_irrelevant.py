"""Sentences of an answer that do not help to answer the question."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from nodes.core.context import Context
from nodes.core.failure import NodeFailure
from nodes.verification.drop_irrelevant import DROP_IRRELEVANT, drop_irrelevant
from serving.backends.scripted import ScriptedCall
from tests.nodes.builders import Bench, asked, facts, failing, flags, run_node, script

WHY, DIET, WALK = "Heparin was stopped for bleeding.", "Diet was regular.", "She walked 50 m."
STATE: Mapping[str, Any] = {"case_id": "q", "answer": f"{WHY} {DIET} {WALK}"}


def helping(**shares: float) -> Callable[[ScriptedCall], str]:
    """P(Yes) by a word of the sentence; any other has 0.9."""

    def reply(call: ScriptedCall) -> str:
        sentence = call.prompt[-1][1].partition("Sentence:")[2]
        share = next((share for word, share in shares.items() if word in sentence), 0.9)
        return json.dumps({"Yes": share, "No": 1 - share})

    return reply


def checking(bench: Bench, verify: Callable[[ScriptedCall], str] | str, *, weighs: bool = True) -> Context:
    return bench.context(replies=script(verify=verify), weighs=weighs, relevance={"least": 0.2})


async def test_a_sentence_that_does_not_help_is_removed_and_named(bench: Bench) -> None:
    update = await run_node(drop_irrelevant, STATE, checking(bench, helping(Diet=0.19, walked=0.21)))
    assert update["answer"] == f"{WHY} {WALK}"
    assert facts(update)["removed"] == [DIET] and flags(update) == {"removed_irrelevant"}
    assert ("removed", DIET) in DROP_IRRELEVANT.rows(facts(update))
    assert DROP_IRRELEVANT.facts["removed"].keep([DIET]) == 1, "texts stay in the run"


async def test_a_sentence_that_shares_a_word_with_the_question_stays(bench: Bench) -> None:
    update = await run_node(drop_irrelevant, STATE, checking(bench, helping(Heparin=0.01)))
    assert update["answer"] == STATE["answer"] and flags(update) == set()


async def test_the_most_helpful_sentence_stays_if_none_helps(bench: Bench) -> None:
    state = {**STATE, "answer": f"{DIET} {WALK}"}
    update = await run_node(drop_irrelevant, state, checking(bench, helping(Diet=0.01, walked=0.02)))
    assert update["answer"] == WALK


async def test_an_answer_of_one_sentence_is_not_asked_about(bench: Bench) -> None:
    context = checking(bench, "No")
    assert (await run_node(drop_irrelevant, {**STATE, "answer": DIET}, context))["answer"] == DIET
    assert not asked(context, "verify")


async def test_a_model_without_probabilities_says_it(bench: Bench) -> None:
    def says(call: ScriptedCall) -> str:
        return "**No**, it does not." if DIET in call.prompt[-1][1] else "Yes."

    update = await run_node(drop_irrelevant, STATE, checking(bench, says, weighs=False))
    assert update["answer"] == f"{WHY} {WALK}"


@pytest.mark.parametrize("weighs", [True, False])
async def test_a_sentence_without_a_reply_stays(bench: Bench, weighs: bool) -> None:
    def refuses(call: ScriptedCall) -> str:
        return failing("refusal")(call) if DIET in call.prompt[-1][1] else "Yes"

    update = await run_node(drop_irrelevant, STATE, checking(bench, refuses, weighs=weighs))
    assert update["answer"] == STATE["answer"]
    assert set(facts(update)["missing_replies"]) == {"2"} and flags(update) == {"unjudged_relevance"}


@pytest.mark.parametrize("weighs", [True, False])
async def test_a_call_that_a_retry_may_answer_fails_the_case(bench: Bench, weighs: bool) -> None:
    with pytest.raises(NodeFailure, match="scripted timeout"):
        await run_node(drop_irrelevant, STATE, checking(bench, failing("timeout"), weighs=weighs))
