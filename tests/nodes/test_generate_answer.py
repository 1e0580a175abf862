from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from nodes.answer.generate_answer import generate_answer
from nodes.core.context import Context
from nodes.core.failure import NodeFailure
from serving.protocol.errors import ErrorClass
from serving.protocol.messages import Message
from tests.nodes.builders import (
    TWO_SENTENCES,
    Bench,
    asked,
    count_words,
    facts,
    failing,
    flags,
    in_turn,
    run_node,
    script,
    shown,
)

STATE = {"case_id": "q", "answer_evidence": ["1", "3"], "answer_demonstrations": []}
SHOWING = {**STATE, "answer_demonstrations": shown("p4", "p1", "p3")}
REJECTED = {"text": "Too short.", "faults": ["it has 1 sentence and needs 2 to 4"]}
TIGHT: dict[str, Any] = {"answer": {"max_tokens": 16, "corrections": 0}}


async def draft(context: Context, state: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The conversation that the node asks with."""
    await run_node(generate_answer, state, context)
    return asked(context, "answer")[-1].prompt


async def words(bench: Bench, *demonstrations: str) -> int:
    """Length of the answering prompt with these demonstrations as `count_words` has it."""
    conversation = await draft(bench.context(), {**STATE, "answer_demonstrations": shown(*demonstrations)})
    return await count_words([Message(role, text) for role, text in conversation])


async def test_the_reply_is_the_draft(bench: Bench) -> None:
    update = await run_node(
        generate_answer, STATE, bench.context(replies=script(answer=f"\n{TWO_SENTENCES} "))
    )
    assert update["draft_answer"] == TWO_SENTENCES


async def test_the_evidence_is_named_by_its_ids(bench: Bench) -> None:
    assert (await draft(bench.context(), STATE))[-1][1].endswith("Essential sentences: [1, 3]")


@pytest.mark.parametrize(("evidence", "read"), [(["1", "3"], [0, 2]), ([], [0, 1, 2])])
async def test_of_the_note_the_evidence_alone_is_read(
    bench: Bench, evidence: list[str], read: list[int]
) -> None:
    context = bench.context(answer={"context": "evidence"})
    state = {**STATE, "answer_evidence": evidence, "answer_demonstrations": shown("p4")}
    conversation = await draft(context, state)
    texts = [sentence.text for sentence in context.cases["q"].sentences]
    assert [place for place, text in enumerate(texts) if text in conversation[-1][1]] == read
    assert conversation[-2] == ("ai", TWO_SENTENCES)
    again = await draft(context, {**state, "rejected_answers": [REJECTED]})
    assert "it has 1 sentence and needs 2 to 4" in again[-1][1]


async def test_the_patients_question_stands_in(bench: Bench) -> None:
    conversation = await draft(bench.context(), {**STATE, "patient_question": "will I bleed"})
    assert "Clinician's question: will I bleed" in conversation[-1][1]


async def test_demonstrations_stand_in_canonical_order(bench: Bench) -> None:
    one = await draft(bench.context(), SHOWING)
    other = await draft(bench.context(), {**STATE, "answer_demonstrations": shown("p3", "p4", "p1")})
    assert one == other


async def test_a_demonstration_shows_its_essential_sentences_and_its_answer(bench: Bench) -> None:
    conversation = await draft(bench.context(), {**STATE, "answer_demonstrations": shown("p4")})
    assert conversation[1][1].endswith("Essential sentences: [1]")
    assert conversation[2] == ("ai", TWO_SENTENCES)


async def test_a_rejected_answer_goes_on_in_the_same_conversation(bench: Bench) -> None:
    first = await draft(bench.context(), SHOWING)
    again = await draft(bench.context(), {**SHOWING, "rejected_answers": [REJECTED]})
    assert again[: len(first)] == first
    assert again[len(first)] == ("ai", "Too short.")
    assert "it has 1 sentence and needs 2 to 4" in again[-1][1]


async def test_the_attempt_is_counted(bench: Bench) -> None:
    update = await run_node(generate_answer, {**STATE, "rejected_answers": [REJECTED]}, bench.context())
    assert facts(update)["attempt"] == 2


async def test_an_empty_reply_is_corrected(bench: Bench) -> None:
    context = bench.context(replies=script(answer=in_turn(" ", TWO_SENTENCES)))
    update = await run_node(generate_answer, STATE, context)
    assert update["draft_answer"] == TWO_SENTENCES


@pytest.mark.parametrize("error_class", ["timeout", "refusal", "connection"])
async def test_a_failed_call_fails_the_case_with_its_class(bench: Bench, error_class: ErrorClass) -> None:
    with pytest.raises(NodeFailure) as caught:
        await run_node(generate_answer, STATE, bench.context(replies=script(answer=failing(error_class))))
    assert caught.value.error_class == error_class


async def test_a_full_window_leaves_out_the_last_chosen(bench: Bench) -> None:
    context = bench.context(context_length=await words(bench, "p4", "p1") + 16, **TIGHT)
    update = await run_node(generate_answer, SHOWING, context)
    assert facts(update)["demonstrations"] == ["p1", "p4"]
    assert facts(update)["dropped_demonstrations"] == ["p3"]
    assert flags(update) == {"dropped_demonstrations"}


async def test_room_is_kept_for_corrections(bench: Bench) -> None:
    room = await words(bench, "p4") + 16
    context = bench.context(context_length=room + 31, answer={"max_tokens": 16, "corrections": 1})
    update = await run_node(generate_answer, {**STATE, "answer_demonstrations": shown("p4")}, context)
    assert facts(update)["demonstrations"] == []


async def test_a_case_that_does_not_fit_alone_fails(bench: Bench) -> None:
    context = bench.context(context_length=await words(bench) + 15, **TIGHT)
    with pytest.raises(NodeFailure) as caught:
        await run_node(generate_answer, SHOWING, context)
    assert caught.value.error_class == "context_length"


async def test_an_unknown_window_keeps_everything(bench: Bench) -> None:
    update = await run_node(generate_answer, SHOWING, bench.context(context_length=None))
    assert facts(update)["dropped_demonstrations"] == []
