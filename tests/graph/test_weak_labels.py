from __future__ import annotations

from typing import Any

import pytest

from cases.records import AnswerSentence, Case, Gold
from graph.recipe import load_recipe
from graph.weak_labels import SYSTEM
from nodes.core.context import Context
from runs.execute.case_run import CaseResult, run_case
from tests.nodes.builders import Bench, asked, by_sample, case, labels, script

GRAPH = SYSTEM.graph
RECIPE = load_recipe("weak_labels").model_dump(mode="json", exclude={"system", "prompts", "models"})
ANSWERED = case(gold=Gold(answer="Platelets had fallen."))
CITED = case(gold=Gold(answer="A.", answer_sentences=(AnswerSentence("1", "A.", ("2",)),)))
BY_PEOPLE = case(gold=Gold({"1": "essential"}, "A."))


async def run(bench: Bench, one: Case, **changes: Any) -> tuple[CaseResult, Context]:
    context = bench.context(one, system="weak_labels", **{**RECIPE, **changes})
    return await run_case(SYSTEM, GRAPH, context, one), context


def route(result: CaseResult) -> list[str]:
    return [step["node"] for step in result.trace[:-1]]


async def test_a_vote_is_counted_and_becomes_the_labels(bench: Bench) -> None:
    result, context = await run(bench, ANSWERED, replies=script(label=labels("2")))
    assert route(result) == ["label_from_answer", "aggregate_votes"]
    assert result.line["labels"] == {"1": "not-essential", "2": "essential", "3": "not-essential"}
    assert (result.line["label_source"], result.line["vote_counts"]["2"]) == ("weak", 1)
    assert len(asked(context)) == 1


async def test_several_votes_are_held_against_the_threshold(bench: Bench) -> None:
    replies = script(label=by_sample(labels("1"), labels("1", "2"), labels("2", "3")))
    result, _ = await run(bench, ANSWERED, replies=replies, evidence={"votes": 3, "threshold": 2})
    assert result.line["evidence"]["threshold"] == ["1", "2"]


async def test_citations_become_the_labels_and_no_one_votes(bench: Bench) -> None:
    result, context = await run(bench, CITED)
    assert route(result) == ["label_from_answer"]
    assert result.line["labels"] == {"1": "not-essential", "2": "essential", "3": "not-essential"}
    assert (result.line["label_source"], result.line["vote_counts"]) == ("weak", None)
    assert asked(context) == []


async def test_a_case_that_people_labelled_gets_no_labels(bench: Bench) -> None:
    result, context = await run(bench, BY_PEOPLE)
    assert (result.line["status"], result.line["labels"], result.line["label_source"]) == ("done", {}, None)
    assert result.line["flags"] == ["labelled_by_people"]
    assert asked(context) == []


async def test_a_case_without_an_answer_fails(bench: Bench) -> None:
    result, _ = await run(bench, case())
    assert result.line["error"]["class"] == "invalid_input"
    assert result.line["label_source"] is None


@pytest.mark.parametrize("one", [ANSWERED, CITED, BY_PEOPLE])
async def test_the_trace_says_where_labels_come_from(bench: Bench, one: Case) -> None:
    result, _ = await run(bench, one)
    expected = {id(ANSWERED): "model", id(CITED): "citations", id(BY_PEOPLE): "people"}
    assert result.trace[0]["facts"]["labels_from"] == expected[id(one)]
