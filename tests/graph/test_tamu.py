"""Every route through the graph, with scripted replies and everything else real."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

import pytest

from graph import tamu
from nodes.core.failure import NodeFailure
from runs.execute.case_run import run_case
from serving.protocol.errors import ErrorClass
from tests.graph.routes import ANSWERING, EVIDENCE, facts_of, roles, route, run, texts, times
from tests.nodes.builders import (
    TWO_SENTENCES,
    Bench,
    asked,
    by_sample,
    case,
    failing,
    flags,
    in_turn,
    intent,
    labels,
    script,
)
from tests.prompts.versions import ONE_MESSAGE

REFLECTED = [*EVIDENCE, "reflect_on_labels", "aggregate_votes", "choose_answer_evidence"]
WHOLE = [*REFLECTED, "retrieve_answer_demonstrations", *ANSWERING]
TIMED_OUT: ErrorClass = "timeout"


async def failure(bench: Bench, *cases: Any, **options: Any) -> NodeFailure:
    with pytest.raises(NodeFailure) as caught:
        await run(bench.context(*cases, **options))
    return caught.value


async def test_an_ordinary_case_takes_the_whole_route(bench: Bench) -> None:
    state = await run(bench.context())
    assert route(state) == WHOLE
    assert state["answer"] == TWO_SENTENCES
    assert flags(state) == set()


async def test_a_note_without_an_essential_sentence_ends_a_case_by_a_rule_that_may_choose_none(
    bench: Bench,
) -> None:
    rule = {"ranker_weight": 0, "cutoff": {"rule": "top_k", "k": 2}, "least": 0.5}
    context = bench.context(
        replies=script(label='{"Yes": 0.1, "No": 0.9}'), evidence={"reply": "pointwise", "rule": rule}
    )
    state = await run(context)
    assert route(state)[-2:] == ["choose_answer_evidence", "decline_answer"]
    assert state["answer_status"] == "not_stated" and not asked(context, "answer")
    assert "no sentence of the note is essential by the rule" in state["decisions"][-1]["because"]


async def test_an_answer_that_says_that_the_note_does_not_say_is_worded_by_the_product(bench: Bench) -> None:
    context = bench.context(
        replies=script(answer="The dose was not specified in the note."),
        answer={"min_sentences": 1},
        verification={"check": "model"},
    )
    state = await run(context)
    assert route(state)[-2:] == ["check_answer", "decline_answer"] and not asked(context, "verify")
    assert state["answer_status"] == "not_stated" and state["answer"] == "The note does not say."


async def test_sentences_that_do_not_help_are_removed_before_the_rest_is_verified(bench: Bench) -> None:
    answer = "Heparin was stopped on day 3. Diet was regular."
    context = bench.context(
        replies=script(
            answer=answer,
            verify=lambda call: '{"Yes": 0.1, "No": 0.9}' if "Sentence:" in call.prompt[-1][1] else "Yes",
        ),
        relevance={"least": 0.2},
        verification={"check": "model"},
    )
    state = await run(context)
    assert route(state)[-3:] == ["check_answer", "drop_irrelevant", "verify_answer"]
    assert state["answer"] == "Heparin was stopped on day 3." and state["answer_status"] == "answered"


@pytest.mark.parametrize("version", ["default", ONE_MESSAGE])
async def test_both_versions_of_the_prompts_carry_a_case_to_its_answer(bench: Bench, version: str) -> None:
    assert (await run(bench.context(prompts=version)))["answer"] == TWO_SENTENCES


async def test_equal_runs_end_in_equal_states(bench: Bench) -> None:
    def without_times(state: dict[str, Any]) -> dict[str, Any]:
        for one in state["decisions"]:
            for call in one["calls"]:
                del call["seconds"]
        return state

    assert without_times(await run(bench.context())) == without_times(await run(bench.context()))


async def test_a_second_run_on_the_journal_asks_nothing(bench: Bench) -> None:
    context = bench.context()
    first = await run(context)
    requests = len(asked(context))
    assert (await run(context))["answer"] == first["answer"]
    assert len(asked(context)) == requests


async def test_each_vote_is_reflected_on_once(bench: Bench) -> None:
    context = bench.context(evidence={"votes": 3, "threshold": 2})
    await run(context)
    assert sorted(call.sample for call in asked(context, "reflect")) == [0, 1, 2]


async def test_without_reflection_the_first_labels_count(bench: Bench) -> None:
    context = bench.context(evidence={"reflection": False}, replies=script(label=labels("3")))
    state = await run(context)
    assert "reflect_on_labels" not in route(state)
    assert "reflect" not in roles(context)
    assert state["evidence"]["threshold"] == ["3"]


async def test_labelling_goes_on_in_reflection_as_an_exact_prefix(bench: Bench) -> None:
    context = bench.context()
    await run(context)
    first = asked(context, "label")[0].prompt
    reflections = asked(context, "reflect")
    assert len(reflections) == len(asked(context, "label"))
    assert all(call.prompt[: len(first)] == first for call in reflections)


async def test_intent_aware_evidence_waits_for_the_intent(bench: Bench) -> None:
    replies = script(classify=intent("recovery_duration", "none"))
    context = bench.context(replies=replies, evidence={"intent_aware": True, "demonstrations": 1})
    state = await run(context)
    assert route(state)[:3] == ["classify_intent", "retrieve_evidence_demonstrations", "label_evidence"]
    assert sorted(route(state)) == sorted(WHOLE)
    assert [one["tier"] for one in state["evidence_demonstrations"]] == ["primary"]
    assert state["shown_demonstrations"] == ["p1"]


async def test_stop_after_evidence_asks_for_no_intent_and_no_answer(bench: Bench) -> None:
    context = bench.context(stop_after="evidence")
    state = await run(context)
    assert roles(context) == {"label", "reflect"}
    assert route(state)[-1] == "aggregate_votes"
    assert "answer" not in state
    assert state["evidence"]["threshold"] == ["1", "2"]


async def test_stop_after_intent_aware_evidence_asks_for_no_answer(bench: Bench) -> None:
    context = bench.context(stop_after="evidence", evidence={"intent_aware": True})
    state = await run(context)
    assert roles(context) == {"classify", "label", "reflect"}
    assert not {"answer", "answer_demonstrations"} & set(state)


async def test_without_evidence_of_the_setting_the_next_best_is_taken(bench: Bench) -> None:
    replies = script(label=by_sample(labels("2"), labels("2"), labels()))
    settings: dict[str, Any] = {"evidence": {"reflection": False}, "answer": {"evidence": "threshold"}}
    context = bench.context(replies=replies, **settings)
    state = await run(context)
    assert "widen_evidence" in route(state)
    assert state["answer_evidence"] == ["2"]
    assert flags(state) == {"no_essential_sentence", "widened_evidence"}


async def test_low_recall_can_want_more_votes_than_the_threshold(bench: Bench) -> None:
    replies = script(label=by_sample(labels("2"), labels("2"), labels("2"), labels()))
    settings: dict[str, Any] = {"evidence": {"reflection": False}, "answer": {"evidence": "low_recall"}}
    state = await run(bench.context(replies=replies, **settings))
    assert state["evidence"] == {"threshold": ["2"], "high_recall": ["2"], "low_recall": []}
    assert state["answer_evidence"] == ["2"]
    assert flags(state) == {"widened_evidence"}


async def test_without_any_vote_the_answer_is_built_on_the_whole_note(bench: Bench) -> None:
    context = bench.context(replies=script(label=labels(), reflect=labels()))
    state = await run(context)
    assert state["answer_evidence"] == []
    assert state["answer"] == TWO_SENTENCES
    assert texts(asked(context, "answer")[0]).endswith("Essential sentences: []")


async def test_an_answer_that_breaks_its_rules_is_corrected(bench: Bench) -> None:
    context = bench.context(replies=script(answer=in_turn("Too short.", TWO_SENTENCES)))
    state = await run(context)
    assert route(state) == [*WHOLE, *ANSWERING]
    assert state["answer"] == TWO_SENTENCES
    assert flags(state) == set()


async def test_the_fault_is_quoted_in_the_conversation(bench: Bench) -> None:
    context = bench.context(replies=script(answer=in_turn("Too short.", TWO_SENTENCES)))
    await run(context)
    first, second = asked(context, "answer")
    assert second.prompt[:-2] == first.prompt
    assert second.prompt[-2] == ("ai", "Too short.")
    assert "it has 1 sentence and needs 2 to 4" in second.prompt[-1][1]


async def test_an_answer_that_breaks_its_rules_twice_is_repaired_and_flagged(bench: Bench) -> None:
    too_long = f"{TWO_SENTENCES} " + " ".join(["more"] * 70) + "."
    context = bench.context(replies=script(answer=too_long))
    state = await run(context)
    assert times(state, "generate_answer") == 2
    assert state["answer"] == TWO_SENTENCES
    assert flags(state) == {"answer_breaks_rules"}


@pytest.mark.parametrize("corrections", [0, 3])
async def test_the_recipe_says_how_often_an_answer_is_sent_back(bench: Bench, corrections: int) -> None:
    context = bench.context(replies=script(answer="Short."), answer={"corrections": corrections})
    state = await run(context)
    assert len(asked(context, "answer")) == corrections + 1
    assert len(state.get("rejected_answers", [])) == corrections


async def test_a_case_without_question_asks_its_phrases(bench: Bench) -> None:
    context = bench.context(case(question=" ", phrases=["will I bleed"]))
    state = await run(context)
    assert route(state) == ["adopt_patient_question", *WHOLE]
    assert all("will I bleed" in texts(call) for call in asked(context))
    assert flags(state) == {"no_clinician_question"}


async def test_a_case_without_question_or_phrases_asks_the_narratives_questions(bench: Bench) -> None:
    context = bench.context(case(question="", narrative="I fell. Will it heal?"), stop_after="evidence")
    state = await run(context)
    assert state["patient_question"] == "Will it heal?"
    assert "classify_intent" not in route(state)


async def test_a_case_with_nothing_to_ask_is_invalid_input(bench: Bench) -> None:
    assert (await failure(bench, case(question="", narrative=""))).error_class == "invalid_input"


async def test_a_missing_vote_scales_the_threshold(bench: Bench) -> None:
    replies = script(label=failing(TIMED_OUT, 1, otherwise=labels("2")), reflect=labels("2"))
    settings: dict[str, Any] = {"evidence": {"votes": 4, "threshold": 4}}
    state = await run(bench.context(replies=replies, one_by_one=True, **settings))
    assert (state["usable_votes"], facts_of(state, "aggregate_votes")[0]["threshold"]) == (3, 3)
    assert state["evidence"]["threshold"] == ["2"]
    assert flags(state) == {"missing_votes"}


@pytest.mark.parametrize("error_class", ["timeout", "connection", "refusal"])
async def test_a_majority_of_failed_votes_fails_the_case(bench: Bench, error_class: ErrorClass) -> None:
    replies = script(label=failing(error_class, 0, 1, 2, otherwise=labels("1")))
    assert (await failure(bench, replies=replies, one_by_one=True)).error_class == error_class


async def test_a_majority_of_unreadable_votes_fails_the_case(bench: Bench) -> None:
    replies = script(label=by_sample("no", "no", "no", labels("1")))
    assert (await failure(bench, replies=replies)).error_class == "invalid_output"


async def test_a_failed_reflection_keeps_its_first_labels_and_stops_no_sibling(bench: Bench) -> None:
    replies = script(label=labels("1"), reflect=failing(TIMED_OUT, 3, otherwise=labels("2")))
    state = await run(bench.context(replies=replies, one_by_one=True))
    by_vote = {vote["vote"]: vote["essential"] for vote in state["reflected_votes"]}
    assert by_vote == {0: ["2"], 1: ["2"], 2: ["2"], 3: ["1"], 4: ["2"]}
    assert state["vote_counts"] == {"1": 1, "2": 4, "3": 0}
    assert flags(state) == {"failed_reflections"}


@pytest.mark.parametrize("failed", [[0], [4], [0, 2, 4], [0, 1, 2, 3, 4]])
async def test_votes_are_aggregated_exactly_once(bench: Bench, failed: list[int]) -> None:
    replies = script(reflect=failing("internal", *failed, otherwise=labels("2")))
    state = await run(bench.context(replies=replies))
    assert times(state, "aggregate_votes") == times(state, "choose_answer_evidence") == 1
    assert times(state, "generate_answer") == times(state, "check_answer") == 1
    assert len(state["reflected_votes"]) == 5


async def test_without_a_single_reflection_the_first_labels_count(bench: Bench) -> None:
    replies = script(label=labels("1", "3"), reflect="no")
    state = await run(bench.context(replies=replies))
    assert state["evidence"]["threshold"] == ["1", "3"]
    assert {one["error_class"] for one in facts_of(state, "reflect_on_labels")} == {"invalid_output"}


async def test_failed_reflections_of_evidence_alone_are_aggregated_once(bench: Bench) -> None:
    state = await run(bench.context(replies=script(reflect="no"), stop_after="evidence"))
    assert times(state, "aggregate_votes") == 1
    assert state["evidence"]["threshold"] == ["1"]


async def _unknown_target(state: object, runtime: object) -> Literal["aggregate_votes"]:
    return cast("Literal['aggregate_votes']", "aggregate_vote")


async def _fault_of_router(state: object, runtime: object) -> Literal["aggregate_votes"]:
    raise KeyError("more_votes")


@pytest.mark.parametrize("router", [_unknown_target, _fault_of_router])
@pytest.mark.parametrize("name", ["after_labelling", "after_reflected_vote", "after_check"])
async def test_the_fault_of_a_router_fails_the_case(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    router: Callable[[object, object], object],
) -> None:
    monkeypatch.setattr(tamu, name, router)
    graph, context = tamu.SYSTEM.build(), bench.context()
    result = await run_case(tamu.SYSTEM, graph, context, context.cases["q"])
    assert (result.line["status"], result.line["error"]["class"]) == ("failed", "internal")
    assert result.line["flags"] == []


async def test_a_programming_error_in_a_reflection_fails_the_case(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("nodes.evidence.reflect_on_labels.read_vote")
    with pytest.raises(NameError):
        await run(bench.context())


async def test_an_unreadable_intent_leaves_similarity_and_is_flagged(bench: Bench) -> None:
    state = await run(bench.context(replies=script(classify="no idea")))
    assert {one["tier"] for one in state["answer_demonstrations"]} == {"similarity"}
    assert state["answer"] == TWO_SENTENCES
    assert flags(state) == {"intent_unclassified"}


async def test_a_failed_classification_fails_the_case(bench: Bench) -> None:
    assert (await failure(bench, replies=script(classify=failing("refusal")))).error_class == "refusal"


async def test_a_failed_answer_fails_the_case(bench: Bench) -> None:
    replies = script(answer=failing("connection"))
    assert (await failure(bench, replies=replies)).error_class == "connection"


async def test_a_case_longer_than_the_window_fails(bench: Bench) -> None:
    assert (await failure(bench, context_length=100)).error_class == "context_length"


async def test_no_prompt_shows_the_case_itself_or_one_held_out(bench: Bench) -> None:
    twin = case("q", narrative="My drip was stopped.", question="Why was it stopped?")
    state = await run(bench.context(twin, held_out=["p1"]))
    chosen = {*state["shown_demonstrations"], *(one["case_id"] for one in state["answer_demonstrations"])}
    assert chosen == {"p2", "p4"}
