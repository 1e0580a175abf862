"""Evidence by one question a sentence."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from nodes.core.choice_confidence import MAX_LOG_ODDS, choice_log_odds
from nodes.core.context import Context
from nodes.core.failure import NodeFailure
from nodes.core.yes_no import probability
from nodes.evidence.aggregate_votes import aggregate_votes
from nodes.evidence.label_evidence import LABEL_EVIDENCE, label_evidence
from nodes.evidence.pointwise import CONTRACT, prompt_fault
from nodes.evidence.settings import EvidenceSettings, FixedVoteSettings
from prompts import load_prompts
from serving.backends.scripted import ScriptedCall
from serving.protocol.errors import CallError, ErrorClass
from serving.protocol.messages import TokenLogprob
from tests.nodes.builders import NOTE, Bench, asked, case, facts, flags, run_node, script

STATE = {"case_id": "q", "evidence_demonstrations": []}
POINTWISE = {"reply": "pointwise"}


def sentence_of(call: ScriptedCall) -> str:
    (number,) = (number for number, text in enumerate(NOTE, start=1) if text in call.prompt[-1][1])
    return str(number)


def weighing(**shares: float) -> Callable[[ScriptedCall], str]:
    """P(Yes) by sentence, as `weighing(s1=0.9)`; the others have 0.1."""

    def reply(call: ScriptedCall) -> str:
        share = shares.get(f"s{sentence_of(call)}", 0.1)
        return json.dumps({"Yes": share, "No": 1 - share})

    return reply


def failing_at(sentence: str, error_class: ErrorClass) -> Callable[[ScriptedCall], str]:
    def reply(call: ScriptedCall) -> str:
        if sentence_of(call) == sentence:
            raise CallError(error_class, "scripted")
        return "Yes"

    return reply


def pointwise(bench: Bench, label: Callable[[ScriptedCall], str] | str, **values: object) -> Context:
    return bench.context(replies=script(label=label), evidence={**POINTWISE, **values})


async def test_every_sentence_has_a_probability_and_one_vote_holds_them(bench: Bench) -> None:
    update = await run_node(label_evidence, STATE, pointwise(bench, weighing(s1=0.9, s2=0.6)))
    (vote,) = update["votes"]
    assert vote["essential"] == ["1"]
    assert vote["confidence"] == pytest.approx({"1": 0.9, "2": 0.6, "3": 0.1}, abs=1e-4)
    assert vote["log_odds"]["1"] == pytest.approx(math.log(9), abs=1e-3)
    assert update["model_scores"] == vote["log_odds"]
    assert update["asked_votes"] == 1
    assert flags(update) == set()


async def test_a_model_that_seldom_says_yes_has_essential_sentences_too(bench: Bench) -> None:
    update = await run_node(label_evidence, STATE, pointwise(bench, weighing(s1=0.3, s2=0.25, s3=0.05)))
    assert update["votes"][0]["essential"] == ["1", "2"]


async def test_sentences_share_everything_but_the_last_turn(bench: Bench) -> None:
    context = pointwise(bench, "No")
    await run_node(label_evidence, STATE, context)
    calls = asked(context, "label")
    assert len(calls) == 3
    assert all(call.prompt[:-1] == calls[0].prompt[:-1] for call in calls)
    assert len({call.prompt[-1] for call in calls}) == 3
    assert {role for role, _ in calls[0].prompt[:-1]} == {"system"}


async def test_a_second_run_over_the_same_journal_asks_nothing(bench: Bench) -> None:
    context = pointwise(bench, weighing(s3=0.7))
    first = await run_node(label_evidence, STATE, context)
    again = await run_node(label_evidence, STATE, context)
    assert len(asked(context, "label")) == 3
    assert again["votes"] == first["votes"]
    assert all(call["replayed"] for call in again["decisions"][0]["calls"])


async def test_a_rule_of_the_recipe_decides(bench: Bench) -> None:
    context = pointwise(bench, weighing(s2=0.2), model_cutoff={"rule": "top_k", "k": 1})
    update = await run_node(label_evidence, STATE, context)
    assert update["votes"][0]["essential"] == ["2"]


@pytest.mark.parametrize("reply", ["perhaps", "", '{"Maybe": 1.0}'])
async def test_a_sentence_with_neither_word_is_missing_and_flagged(bench: Bench, reply: str) -> None:
    answer = weighing(s1=0.9)
    context = pointwise(bench, lambda call: reply if sentence_of(call) == "2" else answer(call))
    update = await run_node(label_evidence, STATE, context)
    (vote,) = update["votes"]
    assert set(vote["log_odds"]) == set(vote["confidence"]) == {"1", "3"}
    assert set(facts(update)["missing_sentences"]) == {"2"}
    assert flags(update) == {"missing_sentences"}
    assert any(name == "sentence 2" for name, _ in LABEL_EVIDENCE.rows(facts(update)))


async def test_a_refused_sentence_is_missing(bench: Bench) -> None:
    update = await run_node(label_evidence, STATE, pointwise(bench, failing_at("3", "refusal")))
    assert set(update["votes"][0]["log_odds"]) == {"1", "2"}
    assert facts(update)["missing_sentences"] == {"3": "refusal: scripted: scripted"}


@pytest.mark.parametrize("error_class", ["timeout", "connection", "rate_limit"])
async def test_a_call_that_a_retry_may_answer_fails_the_case(bench: Bench, error_class: ErrorClass) -> None:
    with pytest.raises(NodeFailure, match="2 of 3 sentences with a label") as caught:
        await run_node(label_evidence, STATE, pointwise(bench, failing_at("2", error_class)))
    assert caught.value.error_class == error_class
    assert len(caught.value.calls) == 2


async def test_a_note_without_a_single_label_fails(bench: Bench) -> None:
    with pytest.raises(NodeFailure, match="0 of 3 sentences with a label") as caught:
        await run_node(label_evidence, STATE, pointwise(bench, '{"Perhaps": 1.0}'))
    assert caught.value.error_class == "invalid_output"
    assert "neither Yes nor No is among the likeliest tokens" in str(caught.value)


async def test_a_note_without_sentences_is_refused(bench: Bench) -> None:
    context = bench.context(case(note=()), evidence=POINTWISE)
    with pytest.raises(NodeFailure, match="no sentences"):
        await run_node(label_evidence, STATE, context)


async def test_a_note_that_does_not_fit_the_window_is_refused(bench: Bench) -> None:
    context = bench.context(evidence=POINTWISE, context_length=40)
    with pytest.raises(NodeFailure, match="longer than the context window") as caught:
        await run_node(label_evidence, STATE, context)
    assert caught.value.error_class == "context_length"


async def test_it_counts_as_one_vote_and_its_probabilities_are_those_of_the_case(bench: Bench) -> None:
    update = await run_node(label_evidence, STATE, pointwise(bench, weighing(s1=0.9, s2=0.123456)))
    context = pointwise(bench, "No")
    counted = await run_node(aggregate_votes, {"case_id": "q", "votes": update["votes"]}, context)
    assert counted["evidence"]["threshold"] == ["1"]
    assert counted["label_confidence"] == update["votes"][0]["confidence"]


async def test_a_missing_sentence_has_no_probability(bench: Bench) -> None:
    vote = {"vote": 0, "essential": ["1"], "confidence": {"1": 0.9, "3": 0.2}}
    counted = await run_node(aggregate_votes, {"case_id": "q", "votes": [vote]}, pointwise(bench, "No"))
    assert counted["label_confidence"] == {"1": 0.9, "2": None, "3": 0.2}


@pytest.mark.parametrize(
    ("values", "threshold", "every"),
    [({}, 1, 1), ({"voters": "both"}, 2, 2), ({"voters": "both", "ranker_votes": 2}, 2, 3)],
)
def test_the_form_sets_what_it_leaves_no_choice_of(
    values: dict[str, object], threshold: int, every: int
) -> None:
    settings = EvidenceSettings.model_validate({**POINTWISE, **values})
    assert (settings.votes, settings.reflection, settings.temperature) == (1, False, 0.0)
    assert (settings.vote_threshold, settings.all_votes) == (threshold, every)
    assert EvidenceSettings.model_validate(settings.model_dump()) == settings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"reflection": True}, "set reflection to false"),
        ({"votes": 5, "threshold": 3}, "set votes to 1"),
        ({"demonstrations": 2, "temperature": 0.7}, "set demonstrations to 0, temperature to 0.0"),
        ({"reply": "labels", "model_cutoff": {"rule": "gap"}}, "model_cutoff is a rule for the reply"),
    ],
)
def test_what_contradicts_the_form_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        EvidenceSettings.model_validate({**POINTWISE, **values})


def test_graphs_that_ask_for_whole_replies_refuse_it() -> None:
    with pytest.raises(ValidationError, match="does not ask for"):
        FixedVoteSettings(reply="pointwise")


def token(text: str, share: float, **top: float) -> TokenLogprob:
    return TokenLogprob(text, math.log(share), tuple((word, math.log(p)) for word, p in top.items()))


def test_words_in_any_case_count_together() -> None:
    found = choice_log_odds(token("Yes", 0.4, Yes=0.4, yes=0.2, No=0.2, The=0.1), "Yes", "No")
    assert found == pytest.approx(math.log(0.6 / 0.2))


def test_a_word_beyond_the_likeliest_counts_as_the_least_of_them() -> None:
    assert choice_log_odds(token("No", 0.9, No=0.9, The=0.01), "Yes", "No") == pytest.approx(
        math.log(0.01 / 0.9)
    )


def test_without_another_token_the_log_odds_have_a_bound() -> None:
    assert choice_log_odds(TokenLogprob("Yes", 0.0), "Yes", "No") == MAX_LOG_ODDS
    assert choice_log_odds(TokenLogprob("Nothing", 0.0), "Yes", "No") is None


def test_probabilities_of_neighbouring_log_odds_differ() -> None:
    assert len({probability(score / 1000) for score in range(-8000, 8000)}) == 16_000


@pytest.mark.parametrize(
    ("system", "user", "message"),
    [
        ("Judge ${sentence}", "${question} Is ${sentence_id} needed?", "${sentence} before its last turn"),
        ("Judge.", "${question} ${sentences}", "names no sentence"),
    ],
)
def test_a_prompt_asks_for_a_sentence_in_its_last_turn_alone(
    tmp_path: Path, system: str, user: str, message: str
) -> None:
    (tmp_path / f"{CONTRACT.name}.yaml").write_text(
        f"opening:\n- {{role: system, text: '{system}'}}\nclosing:\n- {{role: user, text: '{user}'}}\n"
    )
    fault = prompt_fault(load_prompts(str(tmp_path), (CONTRACT,))[CONTRACT.name], "mine")
    assert fault is not None and message in fault


async def test_a_model_without_log_probabilities_gives_no_label(bench: Bench) -> None:
    context = pointwise(bench, "I cannot say.")
    backend = context.client.backends["label"]
    assert backend.weighs_choices
    assert not replace(backend, scores_choices=False).weighs_choices
    with pytest.raises(NodeFailure, match="without log-probabilities"):
        await run_node(label_evidence, STATE, context)
