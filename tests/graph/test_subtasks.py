"""The routes through question interpretation and answer alignment: ArchEHR-QA beyond the paper."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodes.core.failure import NodeFailure
from tests.graph.routes import ANSWERING, facts_of, roles, route, run, texts, times
from tests.nodes.builders import (
    CITED,
    QUESTION,
    TWO_SENTENCES,
    Bench,
    asked,
    case,
    failing,
    flags,
    gold,
    in_turn,
    links,
    script,
)

MISSING: dict[str, Any] = {"question": {"interpret": "missing"}}
ALWAYS: dict[str, Any] = {"question": {"interpret": "always"}}
GENERATED: dict[str, Any] = {"alignment": {"answer": "generated"}}
CLINICIAN: dict[str, Any] = {"alignment": {"answer": "clinician"}}
EVIDENCE_ALONE: dict[str, Any] = {"stop_after": "evidence"}


async def test_by_default_nothing_is_interpreted_and_nothing_aligned(bench: Bench) -> None:
    context = bench.context(case(question="", gold=gold()))
    state = await run(context)
    assert not {"interpret_question", "align_answer"} & set(route(state))
    assert not {"interpreted_question", "answer_sentences", "alignment", "aligned_answer"} & set(state)


@pytest.mark.parametrize("settings", [MISSING, ALWAYS])
async def test_a_missing_question_is_interpreted_first_and_asked_by_all(
    bench: Bench, settings: dict[str, Any]
) -> None:
    context = bench.context(case(question=" "), **settings)
    state = await run(context)
    assert route(state)[0] == "interpret_question"
    assert "adopt_patient_question" not in route(state)
    assert state["patient_question"] == state["interpreted_question"] == QUESTION
    later = [call for call in asked(context) if call.format != "question"]
    assert later and all(QUESTION in texts(call) for call in later)
    assert flags(state) == {"no_clinician_question"}
    assert times(state, "interpret_question") == times(state, "check_answer") == 1


async def test_an_interpreted_question_finds_the_demonstrations(bench: Bench) -> None:
    context = bench.context(case(question=""), replies=script(question="How long will it last?"), **MISSING)
    chosen = (await run(context))["evidence_demonstrations"]
    plain = (await run(bench.context(case(question="How long will it last?"))))["evidence_demonstrations"]
    assert chosen == plain


async def test_intent_aware_evidence_waits_for_the_interpreted_question(bench: Bench) -> None:
    context = bench.context(case(question=""), evidence={"intent_aware": True}, **MISSING)
    state = await run(context)
    assert route(state)[:2] == ["interpret_question", "classify_intent"]
    assert QUESTION in texts(asked(context, "classify")[0])
    assert state["answer"] == TWO_SENTENCES


async def test_a_question_that_is_there_is_not_interpreted_as_missing(bench: Bench) -> None:
    context = bench.context(**MISSING)
    state = await run(context)
    assert "interpret_question" not in route(state)
    assert asked(context, form="question") == []


async def test_always_interprets_beside_a_case_that_asks_its_own_question(bench: Bench) -> None:
    context = bench.context(**ALWAYS)
    state = await run(context)
    assert state["interpreted_question"] == QUESTION
    assert "patient_question" not in state
    later = [call for call in asked(context) if call.format != "question"]
    assert not any(QUESTION in texts(call) for call in later)
    plain = bench.context()
    expected = await run(plain)
    assert sorted(map(texts, later)) == sorted(map(texts, asked(plain)))
    assert state["answer"] == expected["answer"]
    assert times(state, "label_evidence") == times(state, "interpret_question") == 1


@pytest.mark.parametrize("intent_aware", [False, True])
async def test_votes_question_and_alignment_are_asked_for_in_one_step(
    bench: Bench, intent_aware: bool
) -> None:
    context = bench.context(case(gold=gold()), evidence={"intent_aware": intent_aware}, **ALWAYS, **CLINICIAN)
    await run(context)
    order = [call.format for call in asked(context) if call.role != "reflect"]
    assert set(order[:-1]) == {"intent", "labels", "question", "alignment"}
    assert order[-1] == "answer"


async def test_without_a_message_the_phrases_are_asked_or_the_case_fails(bench: Bench) -> None:
    phrases = case(question="", narrative="", phrases=["will I bleed"])
    state = await run(bench.context(phrases, **ALWAYS))
    assert route(state)[0] == "adopt_patient_question"
    with pytest.raises(NodeFailure) as caught:
        await run(bench.context(case(question="", narrative=""), **ALWAYS))
    assert caught.value.error_class == "invalid_input"


async def test_a_case_with_a_question_and_no_message_is_done_and_flagged(bench: Bench) -> None:
    state = await run(bench.context(case(narrative=""), **ALWAYS))
    assert "interpreted_question" not in state
    assert state["answer"] == TWO_SENTENCES
    assert flags(state) == {"no_narrative"}


@pytest.mark.parametrize("question", ["", "Why was heparin stopped?"])
async def test_a_recipe_for_the_question_alone_needs_no_note(bench: Bench, question: str) -> None:
    context = bench.context(case(question=question, note=[]), stop_after="question", **ALWAYS)
    state = await run(context)
    assert route(state) == ["interpret_question"]
    assert state["interpreted_question"] == QUESTION
    assert [call.format for call in asked(context)] == ["question"]


async def test_a_recipe_for_the_question_alone_fails_a_case_without_a_message(bench: Bench) -> None:
    with pytest.raises(NodeFailure) as caught:
        await run(bench.context(case(narrative=""), stop_after="question", **ALWAYS))
    assert caught.value.error_class == "invalid_input"


async def test_a_failed_interpretation_fails_the_case(bench: Bench) -> None:
    with pytest.raises(NodeFailure) as caught:
        await run(bench.context(replies=script(question=failing("timeout")), **ALWAYS))
    assert caught.value.error_class == "timeout"


async def test_the_accepted_answer_is_aligned_last(bench: Bench) -> None:
    replies = script(answer=in_turn("Too short.", TWO_SENTENCES), alignment=links(s1=["1"], s2=["2"]))
    context = bench.context(replies=replies, **GENERATED)
    state = await run(context)
    assert route(state)[-5:] == [*ANSWERING, *ANSWERING, "align_answer"]
    assert [line["text"] for line in state["answer_sentences"]] == TWO_SENTENCES.replace(". ", ".|").split(
        "|"
    )
    assert (state["aligned_answer"], state["alignment"]) == ("generated", {"1": ["1"], "2": ["2"]})
    assert times(state, "align_answer") == 1


async def test_the_clinicians_answer_is_aligned_without_waiting_for_an_answer(bench: Bench) -> None:
    context = bench.context(case(gold=gold()), **CLINICIAN)
    state = await run(context)
    assert [call.format for call in asked(context)].index("alignment") < len(asked(context, "label")) + 2
    assert [line["text"] for line in state["answer_sentences"]] == [line.text for line in CITED]
    assert state["aligned_answer"] == "clinician"
    assert state["answer"] == TWO_SENTENCES
    assert times(state, "align_answer") == times(state, "check_answer") == 1


async def test_a_clinicians_answer_is_aligned_where_the_recipe_stops_after_evidence(bench: Bench) -> None:
    context = bench.context(case(gold=gold()), **CLINICIAN, **EVIDENCE_ALONE)
    state = await run(context)
    assert roles(context) == {"label", "reflect", "answer"}
    assert set(state["alignment"]) == {"1", "2"}
    assert "answer" not in state
    assert state["evidence"]["threshold"] == ["1", "2"]


async def test_a_case_without_a_clinicians_answer_is_done_and_flagged(bench: Bench) -> None:
    state = await run(bench.context(**CLINICIAN))
    assert not {"alignment", "answer_sentences", "aligned_answer"} & set(state)
    assert state["answer"] == TWO_SENTENCES
    assert flags(state) == {"no_clinician_answer"}


@pytest.mark.parametrize("settings", [GENERATED, CLINICIAN])
async def test_a_failed_alignment_fails_the_case(bench: Bench, settings: dict[str, Any]) -> None:
    replies = script(alignment=failing("connection"))
    with pytest.raises(NodeFailure) as caught:
        await run(bench.context(case(gold=gold()), replies=replies, **settings))
    assert caught.value.error_class == "connection"


async def test_one_run_holds_all_four_subtasks(bench: Bench) -> None:
    state = await run(bench.context(case(gold=gold()), **ALWAYS, **CLINICIAN))
    assert {"interpreted_question", "evidence", "answer", "alignment"} <= set(state)
    assert flags(state) == set()
    assert facts_of(state, "interpret_question")[0]["stands_in"] is False


async def test_no_prompt_of_a_whole_run_depends_on_the_cases_own_citations(bench: Bench) -> None:
    others = tuple(replace(line, citations=("3",)) for line in CITED)
    asked_for = []
    for cited in (CITED, others):
        context = bench.context(case(gold=gold(cited=cited)), **ALWAYS, **CLINICIAN)
        await run(context)
        asked_for.append(sorted(texts(call) for call in asked(context)))
    assert asked_for[0] == asked_for[1]
