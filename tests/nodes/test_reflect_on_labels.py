from __future__ import annotations

from typing import get_type_hints

import pytest

from graph.tamu import TamuState
from nodes.evidence.label_evidence import label_evidence
from nodes.evidence.reflect_on_labels import ReflectOnLabelsInput, reflect_on_labels
from serving.journal.journal import JournalError
from serving.protocol.errors import CallError
from tests.nodes.builders import Bench, asked, facts, failing, labels, run_node, script, shown
from tests.prompts.versions import ONE_MESSAGE

STATE = ReflectOnLabelsInput(case_id="q", shown_demonstrations=[], vote={"vote": 2, "essential": ["1", "2"]})


async def test_a_reflection_changes_its_vote(bench: Bench) -> None:
    context = bench.context(replies=script(reflect=labels("2", "3")))
    update = await run_node(reflect_on_labels, STATE, context)
    assert update["reflected_votes"] == [{"vote": 2, "essential": ["2", "3"]}]
    assert (facts(update)["added"], facts(update)["removed"]) == (["3"], ["1"])


async def test_a_reflection_can_confirm(bench: Bench) -> None:
    update = await run_node(reflect_on_labels, STATE, bench.context(replies=script(reflect=labels("1", "2"))))
    assert update["decisions"][0]["because"] == "reflection changed nothing"


async def test_the_default_prompt_goes_on_with_the_labelling_conversation(bench: Bench) -> None:
    context = bench.context()
    chosen = shown("p4", "p1")
    labelled = await run_node(label_evidence, {"case_id": "q", "evidence_demonstrations": chosen}, context)
    state = {**STATE, "shown_demonstrations": labelled["shown_demonstrations"]}
    await run_node(reflect_on_labels, state, context)
    first, then = asked(context, "label")[0].prompt, asked(context, "reflect")[0].prompt
    assert then[: len(first)] == first
    assert then[len(first)] == ("ai", labels("1", "2"))
    assert len(then) == len(first) + 2


async def test_a_prompt_can_begin_anew(bench: Bench) -> None:
    context = bench.context(prompts=ONE_MESSAGE)
    await run_node(reflect_on_labels, STATE, context)
    assert len(asked(context)[0].prompt) == 1
    assert labels("1", "2") in asked(context)[0].prompt[0][1]


async def test_missing_labels_come_from_the_first_stage(bench: Bench) -> None:
    replies = script(reflect='{"1": "not-essential"}')
    update = await run_node(reflect_on_labels, STATE, bench.context(replies=replies))
    assert update["reflected_votes"][0]["essential"] == ["2"]
    assert update["decisions"][0]["flags"] == ["incomplete_replies"]


async def test_without_a_usable_reply_the_first_labels_stand(bench: Bench) -> None:
    update = await run_node(reflect_on_labels, STATE, bench.context(replies=script(reflect="no")))
    assert update["reflected_votes"] == [STATE["vote"]]
    assert facts(update)["error_class"] == "invalid_output"
    assert update["decisions"][0]["flags"] == ["failed_reflections"]
    assert len(update["decisions"][0]["calls"]) == 2
    assert set(update) <= set(get_type_hints(TamuState))


async def test_a_failed_request_keeps_its_class(bench: Bench) -> None:
    replies = script(reflect=failing("refusal"))
    update = await run_node(reflect_on_labels, STATE, bench.context(replies=replies))
    assert facts(update)["error_class"] == "refusal"


@pytest.mark.parametrize(
    "error", [JournalError("disk full"), KeyError("p9"), CallError("auth", "the key is refused")]
)
async def test_any_other_error_ends_more_than_the_vote(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def ask(*_: object) -> None:
        raise error

    context = bench.context()
    monkeypatch.setattr(type(context.client), "ask", ask)
    with pytest.raises(type(error)):
        await run_node(reflect_on_labels, STATE, context)
