from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nodes.core.context import Context
from nodes.core.failure import NodeFailure
from nodes.question.interpret_question import interpret_question
from serving.backends.scripted import ScriptedCall
from serving.protocol.errors import ErrorClass
from serving.protocol.messages import Message
from tests.nodes.builders import (
    QUESTION,
    Bench,
    asked,
    case,
    count_words,
    facts,
    failing,
    flags,
    gold,
    in_turn,
    pool_of,
    run_node,
    script,
)

STATE = {"case_id": "q"}
LONG = "Why was the heparin infusion of this patient stopped so early on the third day of stay?"
CUT = "Why was the heparin infusion of this patient stopped so early on the third day?"


async def conversation(context: Context) -> list[tuple[str, str]]:
    """The first prompt that the node asks with."""
    await run_node(interpret_question, STATE, context)
    return asked(context)[0].prompt


async def demonstrations(context: Context) -> list[str]:
    update = await run_node(interpret_question, STATE, context)
    shown: list[str] = facts(update)["demonstrations"]
    return shown


async def failure(context: Context) -> NodeFailure:
    with pytest.raises(NodeFailure) as caught:
        await run_node(interpret_question, STATE, context)
    return caught.value


async def test_the_reply_is_the_question(bench: Bench) -> None:
    context = bench.context(replies=script(question=f'"{QUESTION}"\n'))
    update = await run_node(interpret_question, STATE, context)
    assert update["interpreted_question"] == QUESTION
    assert flags(update) == set()
    assert [call.role for call in asked(context)] == ["answer"]


async def test_the_prompt_shows_nothing_of_the_cases_own_question(bench: Bench, tmp_path: Path) -> None:
    # A pool in which the question alone would decide which demonstration is nearest.
    pool = await pool_of(
        tmp_path,
        case("d1", narrative="I fell.", question="Why was warfarin chosen?", gold=gold()),
        case("d2", narrative="I fell.", question="Will the femur heal?", gold=gold()),
    )
    prompts = []
    for question in ("Why was warfarin chosen for warfarin?", "Will the femur heal, the femur?", ""):
        asking = case(question=question, narrative="I took a pill.", phrases=["warfarin"], gold=gold())
        context = bench.context(asking, pool=pool, question={"demonstrations": 1})
        prompts.append(await conversation(context))
    assert prompts[0] == prompts[1] == prompts[2]


async def test_the_same_message_under_another_id_is_no_demonstration(bench: Bench, tmp_path: Path) -> None:
    asking = case(question="", narrative="I was on a  heparin drip.\n")
    again = case("d1", narrative="i was on a Heparin drip.", question="Why was it stopped?", gold=gold())
    pool = await pool_of(tmp_path, again, case("d2", narrative="I fell.", gold=gold()))
    assert await demonstrations(bench.context(asking, pool=pool)) == ["d2"]


async def test_the_case_itself_and_those_held_out_are_no_demonstrations(bench: Bench) -> None:
    itself = case("p4", narrative="My platelet count and my drip.")
    context = bench.context(itself, held_out=["p2"])
    update = await run_node(interpret_question, {"case_id": "p4"}, context)
    assert facts(update)["demonstrations"] == ["p1", "p3"]
    assert facts(update)["excluded"] == ["p2", "p4"]


@pytest.mark.parametrize("lacking", [{"question": " "}, {"narrative": ""}])
async def test_a_case_without_question_or_message_shows_nothing(
    bench: Bench, tmp_path: Path, lacking: dict[str, str]
) -> None:
    bare = replace(case("d1", narrative="My heparin drip.", gold=gold()), **lacking)  # type: ignore[arg-type]
    pool = await pool_of(tmp_path, bare, case("d2", narrative="I fell.", gold=gold()))
    assert await demonstrations(bench.context(pool=pool)) == ["d2"]


async def test_demonstrations_are_messages_with_their_clinician_questions(bench: Bench) -> None:
    prompt = await conversation(bench.context(question={"demonstrations": 1}))
    assert prompt[1:3] == [
        ("human", "Patient's message: I was on a heparin drip."),
        ("ai", "Why was heparin stopped?"),
    ]


async def test_without_demonstrations_none_is_looked_for(bench: Bench) -> None:
    assert await demonstrations(bench.context(question={"demonstrations": 0})) == []


async def test_the_limit_is_told(bench: Bench) -> None:
    assert "at most 9 words" in (await conversation(bench.context(question={"max_words": 9})))[0][1]


@pytest.mark.parametrize(
    ("first", "fault"),
    [
        (LONG, "it has 17 words and the limit is 15"),
        (f"Here it is:\n{QUESTION}", "it has 2 lines and must be one line"),
        ('""', "it is empty"),
    ],
)
async def test_a_faulty_question_goes_back_with_its_fault_quoted(
    bench: Bench, first: str, fault: str
) -> None:
    context = bench.context(replies=script(question=in_turn(first, QUESTION)))
    update = await run_node(interpret_question, STATE, context)
    assert update["interpreted_question"] == QUESTION
    assert flags(update) == set()
    one, other = asked(context)
    assert other.prompt[: len(one.prompt)] == one.prompt
    assert other.prompt[-2] == ("ai", first)
    assert fault in other.prompt[-1][1]
    assert facts(update)["faults"] == [[fault]]
    assert (facts(update)["attempts"], len(update["decisions"][0]["calls"])) == (2, 2)


async def test_a_question_that_stays_too_long_is_cut_and_flagged(bench: Bench) -> None:
    context = bench.context(replies=script(question=LONG))
    update = await run_node(interpret_question, STATE, context)
    assert update["interpreted_question"] == CUT
    assert len(CUT.split()) == 15
    assert flags(update) == {"question_breaks_rules"}
    assert len(asked(context)) == facts(update)["attempts"] == 2


@pytest.mark.parametrize("corrections", [0, 3])
async def test_the_recipe_says_how_often_a_question_goes_back(bench: Bench, corrections: int) -> None:
    context = bench.context(replies=script(question=LONG), question={"corrections": corrections})
    await run_node(interpret_question, STATE, context)
    assert len(asked(context)) == corrections + 1


@pytest.mark.parametrize("empty", [" ", '""'])
async def test_a_question_that_stays_empty_is_a_failure(bench: Bench, empty: str) -> None:
    caught = await failure(bench.context(replies=script(question=empty)))
    assert caught.error_class == "invalid_output"
    assert len(caught.calls) == 2


@pytest.mark.parametrize("error_class", ["timeout", "refusal", "connection"])
async def test_a_failed_call_fails_the_case_with_its_class(bench: Bench, error_class: ErrorClass) -> None:
    context = bench.context(replies=script(question=failing(error_class)))
    assert (await failure(context)).error_class == error_class


async def test_calls_before_a_failed_one_are_kept(bench: Bench) -> None:
    def correction_fails(call: ScriptedCall) -> str:
        return failing("timeout")(call) if "breaks its rules" in call.prompt[-1][1] else LONG

    caught = await failure(bench.context(replies=script(question=correction_fails)))
    assert (caught.error_class, len(caught.calls)) == ("timeout", 1)


@pytest.mark.parametrize(("question", "stands_in"), [("", True), ("Why was heparin stopped?", False)])
async def test_it_stands_in_for_a_missing_question_alone(
    bench: Bench, question: str, stands_in: bool
) -> None:
    update = await run_node(interpret_question, STATE, bench.context(case(question=question)))
    assert update.get("patient_question") == (QUESTION if stands_in else None)
    assert flags(update) == ({"no_clinician_question"} if stands_in else set())


async def test_without_a_message_there_is_no_question_and_no_call(bench: Bench) -> None:
    context = bench.context(case(narrative=" "))
    update = await run_node(interpret_question, STATE, context)
    assert set(update) == {"decisions"}
    assert flags(update) == {"no_narrative"}
    assert asked(context) == []


async def test_a_full_window_leaves_out_the_farthest(bench: Bench) -> None:
    async def words(count: int) -> int:
        prompt = await conversation(bench.context(question={"demonstrations": count}))
        return await count_words([Message(role, text) for role, text in prompt])

    tight = {"max_tokens": 16, "corrections": 0, "demonstrations": 2}
    context = bench.context(context_length=await words(1) + 16, question=tight)
    update = await run_node(interpret_question, STATE, context)
    assert facts(update)["demonstrations"] == ["p4"]
    assert flags(update) == {"dropped_demonstrations"}


async def test_the_trace_holds_no_text_of_the_question(bench: Bench) -> None:
    update = await run_node(interpret_question, STATE, bench.context())
    assert QUESTION not in str(update["decisions"])
