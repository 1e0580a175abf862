from __future__ import annotations

import json

import pytest

from nodes.core.failure import NodeFailure
from nodes.question.judge_answerability import (
    NEUTRAL_RECORD,
    Answerability,
    judge_answerability,
    parse_answerability,
)
from serving.backends.scripted import ScriptedCall
from serving.protocol.errors import InvalidReply
from tests.nodes.builders import Bench, asked, case, facts, flags, run_node, script

IDS = ["1", "2", "3"]


def reply(answerable: object, *sentences: object) -> str:
    return json.dumps({"answerable": answerable, "sentences": sentences})


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (reply("yes", "3", 1), Answerability("yes", ["1", "3"])),
        (reply("partly"), Answerability("partly", [])),
        (reply("no", "2"), Answerability("no", [])),
    ],
)
def test_sentences_are_read_in_note_order(text: str, read: Answerability) -> None:
    assert parse_answerability(text, IDS) == read


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (reply("maybe"), "'answerable' must be one of yes, partly, no"),
        (reply("yes", "9"), "unknown sentence ids: 9"),
        (json.dumps({"answerable": "yes"}), "'sentences' must be a list"),
    ],
)
def test_a_guess_is_refused(text: str, fault: str) -> None:
    with pytest.raises(InvalidReply, match=fault):
        parse_answerability(text, IDS)


@pytest.mark.parametrize(("answerable", "flagged"), [("yes", set()), ("partly", {"information_missing"})])
async def test_a_note_that_lacks_something_is_flagged(
    bench: Bench, answerable: str, flagged: set[str]
) -> None:
    context = bench.context(system="triage", replies=script(verify=reply(answerable, "2")))
    update = await run_node(judge_answerability, {"case_id": "q"}, context)
    assert (update["answerable"], update["answering_sentences"]) == (answerable, ["2"])
    assert facts(update) == {"answerable": answerable, "sentences": ["2"]}
    assert flags(update) == flagged


@pytest.mark.parametrize("note", [[], ["Heparin was stopped."]])
async def test_a_case_that_cannot_be_judged_fails(bench: Bench, note: list[str]) -> None:
    context = bench.context(case(note=note), system="triage", replies=script(verify="no idea"))
    with pytest.raises(NodeFailure):
        await run_node(judge_answerability, {"case_id": "q"}, context)


@pytest.mark.parametrize(("share", "answerable"), [(0.9, "yes"), (0.2, "no")])
async def test_one_token_decides_by_its_probability(bench: Bench, share: float, answerable: str) -> None:
    replies = script(verify=json.dumps({"Yes": share, "No": 1 - share}))
    values = {"reply": "auto", "least": 0.3}
    context = bench.context(system="triage", replies=replies, answerability=values)
    update = await run_node(judge_answerability, {"case_id": "q"}, context)
    assert (update["answerable"], update["answering_sentences"]) == (answerable, [])
    assert facts(update)["probability"] == pytest.approx(share, abs=1e-4)
    (call,) = asked(context, "verify")
    assert call.choices == ("Yes", "No")


@pytest.mark.parametrize(
    ("question", "sentences"),
    [("Can she take ibuprofen?", ["2"]), ("Was warfarin given?", []), ("Why was ibuprofen avoided?", [])],
)
async def test_a_denial_answers_a_yes_no_question_without_a_call(
    bench: Bench, question: str, sentences: list[str]
) -> None:
    note = ("No seizure occurred.", "Ibuprofen was avoided because of the platelets.")
    context = bench.context(
        case(note=note, question=question), system="triage", replies=script(verify=reply("no"))
    )
    update = await run_node(judge_answerability, {"case_id": "q"}, context)
    assert update["answering_sentences"] == sentences
    assert update["answerable"] == ("yes" if sentences else "no")
    assert len(asked(context, "verify")) == (not sentences)


async def test_what_the_model_says_of_any_record_is_taken_off(bench: Bench) -> None:
    def weighed(call: ScriptedCall) -> str:
        share = 0.8 if NEUTRAL_RECORD in call.prompt[-1][1] else 0.9
        return json.dumps({"Yes": share, "No": 1 - share})

    values = {"reply": "token", "least": 0.6, "contrast": 1.0}
    context = bench.context(system="triage", replies=script(verify=weighed), answerability=values)
    update = await run_node(judge_answerability, {"case_id": "q"}, context)
    # Odds of 9 over odds of 4.
    assert facts(update)["probability"] == pytest.approx(9 / 13, abs=1e-4)
    assert len(asked(context, "verify")) == 2


async def test_a_model_without_log_probabilities_is_asked_in_json(bench: Bench) -> None:
    context = bench.context(
        system="triage",
        replies=script(verify=reply("no")),
        weighs=False,
        answerability={"reply": "auto"},
    )
    update = await run_node(judge_answerability, {"case_id": "q"}, context)
    assert update["answerable"] == "no"
