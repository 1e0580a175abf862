"""Log-probabilities on their way from a reply to the labels of a case."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from nodes.core.context import Context
from nodes.evidence.aggregate_votes import aggregate_votes
from nodes.evidence.label_evidence import label_evidence
from nodes.evidence.reflect_on_labels import reflect_on_labels
from serving.protocol.messages import TokenLogprob
from serving.protocol.request import Failure, Reply, Request
from serving.requests.client import ModelClient
from tests.graph.routes import run
from tests.nodes.builders import Bench, by_sample, essential, facts, labels, run_node, script

T = TypeVar("T")
STATE = {"case_id": "q", "evidence_demonstrations": []}
REFLECTED = {"case_id": "q", "shown_demonstrations": [], "vote": {"vote": 2, "essential": ["1"]}}
SURE, UNSURE = 0.8, 0.2


class TellingClient(ModelClient):
    """One token a letter, at a probability of 0.8; `e` could be `n` and the other way round."""

    asks: list[Request[Any]]

    async def ask(self, ask: Request[T]) -> list[Reply[T] | Failure]:
        self.asks.append(ask)
        other = {"e": "n", "n": "e"}
        return [
            replace(
                outcome,
                logprobs=tuple(
                    TokenLogprob(letter, math.log(SURE), ((other.get(letter, "?"), math.log(UNSURE)),))
                    for letter in outcome.text
                ),
            )
            if isinstance(outcome, Reply) and ask.logprobs
            else outcome
            for outcome in await super().ask(ask)
        ]


def telling(bench: Bench, **settings: Any) -> Context:
    context = bench.context(**settings)
    client = TellingClient(context.client.backends, context.client.journal)
    client.asks = []
    return replace(context, client=client)


def asks(context: Context) -> list[Request[Any]]:
    assert isinstance(context.client, TellingClient)
    return context.client.asks


def confidences(update: Mapping[str, Any], key: str = "votes") -> list[dict[str, float] | None]:
    return [vote.get("confidence") for vote in update[key]]


@pytest.mark.parametrize("confidence", [True, False])
async def test_the_recipe_says_whether_to_ask(bench: Bench, confidence: bool) -> None:
    context = telling(bench, evidence={"confidence": confidence}, stop_after="evidence")
    state = await run(context)
    assert {ask.logprobs for ask in asks(context)} == {confidence}
    assert ("label_confidence" in state) is confidence


async def test_a_vote_knows_how_sure_it_is(bench: Bench) -> None:
    replies = script(label=by_sample(labels("1"), labels("2", "3")))
    evidence = {"confidence": True, "votes": 2, "threshold": 1}
    update = await run_node(label_evidence, STATE, telling(bench, replies=replies, evidence=evidence))
    assert confidences(update) == [
        {"1": SURE, "2": UNSURE, "3": UNSURE},
        {"1": UNSURE, "2": SURE, "3": SURE},
    ]
    assert facts(update)["votes"] == update["votes"]


async def test_a_reflected_vote_is_as_sure_as_its_reflection(bench: Bench) -> None:
    context = telling(bench, replies=script(reflect=labels("3")), evidence={"confidence": True})
    update = await run_node(reflect_on_labels, REFLECTED, context)
    assert confidences(update, "reflected_votes") == [{"1": UNSURE, "2": UNSURE, "3": SURE}]


async def test_a_list_of_ids_tells_nothing(bench: Bench) -> None:
    evidence = {"confidence": True, "reply": "ids"}
    context = telling(bench, replies=script(label=essential("1")), evidence=evidence)
    update = await run_node(label_evidence, STATE, context)
    assert confidences(update) == [None] * 5


async def test_a_model_that_gives_no_log_probabilities_tells_nothing(bench: Bench) -> None:
    update = await run_node(label_evidence, STATE, bench.context(evidence={"confidence": True}))
    assert confidences(update) == [None] * 5


async def test_labels_are_as_sure_as_their_votes_on_average(bench: Bench) -> None:
    votes = [
        {"vote": 0, "essential": ["1"], "confidence": {"1": 0.9, "2": 0.1}},
        {"vote": 1, "essential": ["1"], "confidence": {"1": 0.6}},
        {"vote": 2, "essential": []},
    ]
    update = await run_node(aggregate_votes, {"case_id": "q", "votes": votes}, bench.context())
    assert update["label_confidence"] == {"1": 0.75, "2": 0.1, "3": None}
    assert facts(update)["label_confidence"] == update["label_confidence"]


async def test_votes_that_tell_nothing_leave_no_trace_of_it(bench: Bench) -> None:
    votes = [{"vote": 0, "essential": ["1"]}]
    update = await run_node(aggregate_votes, {"case_id": "q", "votes": votes}, bench.context())
    assert "label_confidence" not in {**update, **facts(update)}
