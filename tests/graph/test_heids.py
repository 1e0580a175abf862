"""Routes through heiDS's graph, and what they leave in the line of a case."""

from __future__ import annotations

from typing import Any

import pytest

from cases.records import Case
from graph.heids import SYSTEM, HeidsRecipe
from graph.recipe import load_recipe
from nodes.core.context import Context
from nodes.retrieval.retrieve_sentences import RETRIEVER
from ranking.rankers.bm25 import Bm25Ranker
from runs.execute.case_run import CaseResult, run_case
from tests.nodes.builders import CITED_TEXT, TWO_SENTENCES, Bench, asked, case, in_turn, script

GRAPH = SYSTEM.graph
CITED = ["retrieve_sentences", "generate_cited_answer", "validate_citations"]
UNCITED = ["retrieve_sentences", "generate_uncited_answer", "check_answer", "attribute_answer"]
AFTERWARDS: dict[str, Any] = {"citation": {"method": "post_generation"}}


async def run(bench: Bench, one: Case | None = None, **changes: Any) -> tuple[CaseResult, Context]:
    one = one or case()
    recipe = load_recipe("heids").model_dump(mode="json", exclude={"system", "prompts", "models"})
    recipe["retrieval"] |= {"retriever": "bm25", "cutoff": {"rule": "top_k", "k": 2}}
    context = bench.context(one, system="heids", tools={RETRIEVER: Bm25Ranker()}, **{**recipe, **changes})
    return await run_case(SYSTEM, GRAPH, context, one), context


def route(result: CaseResult) -> list[str]:
    return [step["node"] for step in result.trace[:-1]]


async def test_an_answer_is_retrieved_for_written_and_validated(bench: Bench) -> None:
    result, context = await run(bench)
    assert route(result) == CITED
    line = result.line
    assert line["labels"] == {"1": "essential", "2": "essential", "3": "not-essential"}
    assert line["answer"] == TWO_SENTENCES
    assert (line["alignment"], line["aligned_answer"]) == ({"1": ["1"], "2": ["1", "2"]}, "generated")
    assert [call.role for call in asked(context)] == ["answer"]


async def test_labels_are_what_is_cited_not_what_was_retrieved(bench: Bench) -> None:
    result, _ = await run(bench, replies=script(cited_answer="It fell. |2|"))
    assert len(result.line["retrieved"]) == 2
    assert [id_ for id_, label in result.line["labels"].items() if label == "essential"] == ["2"]


async def test_retrieval_alone_asks_no_model_and_labels_what_it_found(bench: Bench) -> None:
    result, context = await run(bench, stop_after="evidence")
    assert route(result) == CITED[:1]
    assert result.line["labels"] == {"1": "essential", "2": "essential", "3": "not-essential"}
    assert (result.line["answer"], asked(context)) == (None, [])


async def test_citations_can_be_made_afterwards(bench: Bench) -> None:
    result, context = await run(bench, **AFTERWARDS)
    assert route(result) == UNCITED
    assert result.line["alignment"] == {"1": ["1"], "2": ["2"]}
    assert {pair["id"] for pair in result.line["attributions"]["1"]} == {"1", "2"}
    assert asked(context)[0].format == "answer"


@pytest.mark.parametrize("method", [{}, AFTERWARDS])
async def test_a_case_without_a_clinician_question_is_asked_the_patients(
    bench: Bench, method: dict[str, Any]
) -> None:
    one = case(question="", narrative="Why was heparin stopped?")
    result, context = await run(bench, one, **method)
    assert route(result) == ["adopt_patient_question", *(UNCITED if method else CITED)]
    assert set(result.line["flags"]) == {"no_clinician_question", "incomplete_query"}
    assert "[Clinician Question Begin]\nWhy was heparin stopped?" in asked(context)[0].prompt[-1][1]


async def test_an_answer_without_citations_is_sent_back_once(bench: Bench) -> None:
    result, _ = await run(bench, replies=script(cited_answer=in_turn(TWO_SENTENCES, CITED_TEXT)))
    assert route(result) == [*CITED, *CITED[1:]]
    assert (result.line["answer"], result.line["flags"]) == (TWO_SENTENCES, [])


async def test_an_answer_that_stays_without_citations_ends_with_a_flag(bench: Bench) -> None:
    result, context = await run(bench, replies=script(cited_answer=TWO_SENTENCES))
    assert (len(asked(context)), result.line["status"]) == (2, "done")
    assert "no_citations" in result.line["flags"]
    assert set(result.line["labels"].values()) == {"not-essential"}


async def test_a_long_uncited_answer_is_written_again_before_it_is_attributed(bench: Bench) -> None:
    replies = script(answer=in_turn("w " * 80 + ".", TWO_SENTENCES))
    result, _ = await run(bench, replies=replies, **AFTERWARDS)
    assert route(result) == [*UNCITED[:3], *UNCITED[1:]]


async def test_a_case_with_nothing_to_ask_fails(bench: Bench) -> None:
    result, _ = await run(bench, case(question="", narrative=""))
    assert result.line["error"]["class"] == "invalid_input"


def test_the_packaged_recipes_differ_in_their_citations_alone() -> None:
    one, other = load_recipe("heids"), load_recipe("heids-post-generation")
    assert isinstance(one, HeidsRecipe)
    assert isinstance(other, HeidsRecipe)
    assert one.model_copy(update={"citation": other.citation}) == other
    assert (one.citation.method, other.citation.method) == ("post_retrieval", "post_generation")
