from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cases.records import AnswerSentence, Gold
from nodes.answer.align_answer import align_answer, alignment_reply_tokens
from nodes.core.context import Context
from nodes.core.failure import NodeFailure
from serving.protocol.errors import ErrorClass
from serving.protocol.messages import Message
from tests.nodes.builders import (
    CITED,
    NEAREST_FIRST,
    TWO_SENTENCES,
    Bench,
    asked,
    case,
    count_words,
    facts,
    failing,
    flags,
    gold,
    in_turn,
    links,
    pool_of,
    run_node,
    script,
)

STATE = {"case_id": "q", "answer": TWO_SENTENCES}
GENERATED: dict[str, Any] = {"alignment": {"answer": "generated"}}
CLINICIAN: dict[str, Any] = {"alignment": {"answer": "clinician"}}


def answered(*lines: AnswerSentence) -> Gold:
    return Gold(answer_sentences=lines)


async def conversation(context: Context, state: Mapping[str, Any] = STATE) -> list[tuple[str, str]]:
    await run_node(align_answer, state, context)
    return asked(context)[0].prompt


async def failure(context: Context) -> NodeFailure:
    with pytest.raises(NodeFailure) as caught:
        await run_node(align_answer, STATE, context)
    return caught.value


async def test_the_generated_answer_is_aligned_sentence_by_sentence(bench: Bench) -> None:
    replies = script(alignment=links(s1=["1"], s2=["2", "1"]))
    update = await run_node(align_answer, STATE, bench.context(replies=replies, **GENERATED))
    assert update["aligned_answer"] == "generated"
    assert update["answer_sentences"] == [
        {"id": "1", "text": "Heparin was stopped on day 3."},
        {"id": "2", "text": "The platelet count had fallen to 40."},
    ]
    assert update["alignment"] == {"1": ["1"], "2": ["1", "2"]}
    assert flags(update) == set()


async def test_the_clinicians_answer_keeps_its_ids_and_texts(bench: Bench) -> None:
    lines = (AnswerSentence("b", "It was\nstopped.", None), AnswerSentence("a", "Platelets fell.", ("2",)))
    context = bench.context(case(gold=answered(*lines)), **CLINICIAN)
    update = await run_node(align_answer, {"case_id": "q"}, context)
    assert update["aligned_answer"] == "clinician"
    assert update["answer_sentences"] == [
        {"id": "b", "text": "It was stopped."},
        {"id": "a", "text": "Platelets fell."},
    ]
    assert list(update["alignment"]) == ["b", "a"]


async def test_citations_of_the_case_itself_reach_no_prompt(bench: Bench) -> None:
    prompts = []
    for citations in (("1",), ("2", "3"), (), None):
        lines = [replace(line, citations=citations) for line in CITED]
        context = bench.context(case(gold=answered(*lines)), **CLINICIAN)
        prompts.append(await conversation(context))
    assert all(prompt == prompts[0] for prompt in prompts)


async def test_a_case_without_a_clinicians_answer_is_flagged_and_asks_nothing(bench: Bench) -> None:
    context = bench.context(**CLINICIAN)
    update = await run_node(align_answer, STATE, context)
    assert set(update) == {"decisions"}
    assert flags(update) == {"no_clinician_answer"}
    assert asked(context) == []


async def test_two_answer_sentences_with_one_id_are_invalid_input(bench: Bench) -> None:
    context = bench.context(case(gold=answered(CITED[0], CITED[0])), **CLINICIAN)
    assert (await failure(context)).error_class == "invalid_input"


async def test_a_note_without_sentences_is_invalid_input(bench: Bench) -> None:
    assert (await failure(bench.context(case(note=[]), **GENERATED))).error_class == "invalid_input"


async def test_the_whole_note_is_shown(bench: Bench) -> None:
    prompt = await conversation(bench.context(**GENERATED))
    assert (
        "Note:\n1: Heparin was stopped on day 3.\n2: The platelet count fell to 40.\n3: Diet was regular.\n\n"
        "Answer:\n1: Heparin was stopped on day 3.\n2: The platelet count had fallen to 40."
    ) in prompt[-1][1]


async def test_the_patients_question_stands_in(bench: Bench) -> None:
    prompt = await conversation(bench.context(**GENERATED), {**STATE, "patient_question": "will I bleed"})
    assert "Clinician's question: will I bleed" in prompt[-1][1]


async def test_demonstrations_show_their_citations_in_note_order(bench: Bench) -> None:
    prompt = await conversation(bench.context(alignment={"answer": "generated", "demonstrations": 1}))
    assert prompt[2] == ("ai", links(s1=["1"], s2=["1", "2"]))


async def test_cases_without_citations_are_no_demonstrations(bench: Bench, tmp_path: Path) -> None:
    uncited = (
        None,
        tuple(replace(line, citations=None) for line in CITED),
        (CITED[0], replace(CITED[1], citations=None)),
        tuple(replace(line, citations=()) for line in CITED),
    )
    nearer = [
        case(f"d{number}", narrative=f"My heparin drip {number}.", gold=gold(cited=lines))
        for number, lines in enumerate(uncited)
    ]
    pool = await pool_of(tmp_path, *nearer, case("d4", narrative="My knee swells.", gold=gold()))
    update = await run_node(align_answer, STATE, bench.context(pool=pool, **GENERATED))
    assert facts(update)["demonstrations"] == ["d4"]


async def test_the_nearest_are_shown_but_never_the_case_itself_nor_one_held_out(bench: Bench) -> None:
    itself = case("p3", narrative="I was on a heparin drip.")
    context = bench.context(itself, held_out=["p2"], **GENERATED)
    update = await run_node(align_answer, {**STATE, "case_id": "p3"}, context)
    nearest = [id_ for id_ in NEAREST_FIRST if id_ not in ("p2", "p3", "p4")]
    assert [one["case_id"] for one in facts(update)["chosen"]] == nearest
    # "p4" has the same texts under another id.
    assert facts(update)["excluded"] == ["p2", "p3", "p4"]


async def test_a_faulty_reply_is_corrected(bench: Bench) -> None:
    replies = script(alignment=in_turn(links(s1=["9"]), links(s1=["1"], s2=["2"])))
    context = bench.context(replies=replies, **GENERATED)
    update = await run_node(align_answer, STATE, context)
    assert update["alignment"] == {"1": ["1"], "2": ["2"]}
    assert flags(update) == set()
    quoted = asked(context)[1].prompt[-1][1]
    assert "missing ids of answer sentences: 2; ids that the note lacks: 9" in quoted


async def test_a_reply_that_stays_faulty_is_read_as_far_as_it_goes_and_flagged(bench: Bench) -> None:
    context = bench.context(replies=script(alignment=links(s1=["9", "1"])), **GENERATED)
    update = await run_node(align_answer, STATE, context)
    assert update["alignment"] == {"1": ["1"], "2": []}
    assert flags(update) == {"incomplete_alignment"}
    assert (facts(update)["dropped_ids"], facts(update)["missing_sentences"]) == (1, 1)


async def test_a_reply_without_any_link_list_fails_the_case(bench: Bench) -> None:
    context = bench.context(replies=script(alignment="no links"), **GENERATED)
    assert (await failure(context)).error_class == "invalid_output"


@pytest.mark.parametrize("error_class", ["timeout", "refusal", "connection"])
async def test_a_failed_call_fails_the_case_with_its_class(bench: Bench, error_class: ErrorClass) -> None:
    context = bench.context(replies=script(alignment=failing(error_class)), **GENERATED)
    assert (await failure(context)).error_class == error_class


async def test_a_full_window_leaves_out_demonstrations(bench: Bench) -> None:
    prompt = await conversation(bench.context(alignment={"answer": "generated", "demonstrations": 1}))
    words = await count_words([Message(role, text) for role, text in prompt])
    room = words + alignment_reply_tokens(("1", "2"), ("1", "2", "3"))
    update = await run_node(align_answer, STATE, bench.context(context_length=room, **GENERATED))
    assert facts(update)["demonstrations"] == ["p4"]
    assert flags(update) == {"dropped_demonstrations"}


async def test_the_trace_holds_no_text_of_the_answer(bench: Bench) -> None:
    update = await run_node(align_answer, STATE, bench.context(**GENERATED))
    assert "Heparin" not in str(update["decisions"])
