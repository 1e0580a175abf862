"""Both forms of a labelling through the nodes that ask for it."""

from __future__ import annotations

from typing import Any

import pytest

from nodes.core.context import Context
from nodes.evidence.label_evidence import label_evidence
from nodes.evidence.reflect_on_labels import reflect_on_labels
from nodes.evidence.reply_forms import REPLY_FORMS
from tests.nodes.builders import Bench, asked, by_sample, essential, facts, labels, run_node, script, shown

ONE_VOTE = {"votes": 1, "threshold": 1, "reply": "ids"}
STATE = {"case_id": "q", "evidence_demonstrations": shown("p4")}
VOTE = {"case_id": "q", "shown_demonstrations": ["p4"], "vote": {"vote": 0, "essential": ["1", "2"]}}
WRITTEN = {"labels": labels, "ids": essential}


def bench_of(bench: Bench, reply: str, **replies: Any) -> Context:
    return bench.context(evidence={"reply": reply}, replies=script(**replies))


async def test_votes_in_ids_are_the_votes_of_labels(bench: Bench) -> None:
    found = []
    for reply, written in WRITTEN.items():
        context = bench_of(bench, reply, label=by_sample(written("1"), written("2", "3"), written()))
        found.append((await run_node(label_evidence, STATE, context))["votes"])
    assert found[0] == found[1]


@pytest.mark.parametrize("reply", [one for one in REPLY_FORMS if one != "auto"])
async def test_a_reflection_in_either_form_changes_its_vote(bench: Bench, reply: str) -> None:
    context = bench_of(bench, reply, reflect=WRITTEN[reply]("2", "3"))
    update = await run_node(reflect_on_labels, VOTE, context)
    assert (facts(update)["added"], facts(update)["removed"]) == (["3"], ["1"])


@pytest.mark.parametrize("reply", [one for one in REPLY_FORMS if one != "auto"])
async def test_a_conversation_is_in_one_form_from_example_to_reflection(bench: Bench, reply: str) -> None:
    context = bench_of(bench, reply, reflect=WRITTEN[reply]("1"))
    await run_node(reflect_on_labels, VOTE, context)
    (call,) = asked(context, "reflect")
    said = [text for role, text in call.prompt if role == "ai"]
    assert said == [WRITTEN[reply]("1"), WRITTEN[reply]("1", "2")]
    instruction = REPLY_FORMS[reply].instruction  # type: ignore[index]
    assert [instruction in text for role, text in call.prompt if role == "system"] == [True]
    assert call.prompt[-1][1].endswith(instruction)


async def test_the_default_form_is_a_label_for_every_sentence(bench: Bench) -> None:
    context = bench.context()
    await run_node(label_evidence, STATE, context)
    assert (
        asked(context)[0]
        .prompt[0][1]
        .endswith("\nReply with JSON only: an object with every sentence id, in order, and its label.")
    )


async def test_a_list_with_a_fault_is_sent_back_with_it(bench: Bench) -> None:
    context = bench.context(evidence=ONE_VOTE, replies=script(label=essential("1", "9")))
    update = await run_node(label_evidence, STATE, context)
    assert "unknown sentence ids: 9" in asked(context)[-1].prompt[-1][1]
    assert update["votes"] == [{"vote": 0, "essential": ["1"]}]
    assert update["decisions"][0]["flags"] == ["incomplete_replies"]


async def test_ids_leave_room_for_more_demonstrations(bench: Bench) -> None:
    ids = [str(number) for number in range(1, 55)]
    assert REPLY_FORMS["ids"].tokens(ids) < REPLY_FORMS["labels"].tokens(ids) / 2
