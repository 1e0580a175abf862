"""Whole runs of `bioasq` over invented questions, and its routes."""

from __future__ import annotations

from typing import Any, cast

import pytest
from langgraph.runtime import Runtime

from cases.biomedical import QuestionType
from cases.records import Case
from graph.bioasq import (
    SYSTEM,
    BioasqRecipe,
    after_reranking,
    after_retrieval,
    after_snippets,
    begin,
)
from graph.recipe import load_recipe
from nodes.core.context import Context
from runs.execute.case_run import run_case
from tests.graph.routes import facts_of, route
from tests.nodes.biomedical_builders import IDEAL, asking, question_context, says, snippet
from tests.nodes.builders import Bench, asked, by_sample, flags, never

GRAPH = SYSTEM.graph
EXACT = ["adopt_snippets", "answer_exactly", "aggregate_exact_answers", "answer_ideally"]


async def answer(context: Context) -> dict[str, Any]:
    return cast("dict[str, Any]", await GRAPH.ainvoke({"case_id": "q"}, context=context))


@pytest.mark.parametrize(
    ("type_", "said", "exact"),
    [
        ("yesno", "no", "no"),
        ("factoid", ["a", "b"], [["a"], ["b"]]),
        ("list", ["a", "b", "A"], [["a"], ["b"]]),
    ],
)
async def test_a_question_is_answered_exactly_and_then_in_words(
    bench: Bench, type_: QuestionType, said: Any, exact: Any
) -> None:
    context = question_context(bench, asking(type_=type_), exactly=says(said))
    state = await answer(context)
    assert route(state) == EXACT
    assert (state["exact_answer"], state["answer"]) == (exact, IDEAL)
    hint = exact if isinstance(exact, str) else "a; b"
    assert f"(Hint: short answer is {hint})" in asked(context, "answer")[0].prompt[-1][1]


async def test_a_summary_is_answered_in_words_alone(bench: Bench) -> None:
    state = await answer(question_context(bench, asking(type_="summary"), exactly=never))
    assert route(state) == ["adopt_snippets", "answer_ideally"]
    assert "exact_answer" not in state


async def test_votes_are_counted_before_the_answer_in_words(bench: Bench) -> None:
    votes = by_sample(says("yes"), says("no"), says("no"))
    context = question_context(bench, exactly=votes, exact={"votes": 3, "shots": 0})
    state = await answer(context)
    assert state["exact_answer"] == "no"
    assert facts_of(state, "aggregate_exact_answers")[0]["no_votes"] == 2
    assert [call.sample for call in asked(context, "label")] == [0, 1, 2]


async def result(context: Context, case: Case) -> Any:
    return (await run_case(SYSTEM, GRAPH, context, case)).line


async def test_a_question_without_type_fails_alone_and_says_why(bench: Bench) -> None:
    case = asking(type_=None)
    line = await result(question_context(bench, case, exactly=never), case)
    assert (line["status"], line["error"]["class"]) == ("failed", "invalid_input")
    assert "give it one of yesno, factoid, list, summary" in line["error"]["message"]


async def test_a_case_of_another_kind_fails_in_the_same_way(bench: Bench) -> None:
    case = Case("q", "", "Does it?", ())
    line = await result(question_context(bench, case, exactly=never), case)
    assert line["error"]["class"] == "invalid_input"


async def test_a_line_holds_both_answers_and_the_snippets(bench: Bench) -> None:
    case = asking()
    line = await result(question_context(bench, case), case)
    assert (line["status"], line["exact_answer"], line["answer"]) == ("done", "yes", IDEAL)
    assert [one["document"] for one in line["snippets"]] == ["d1"]


async def test_200_long_snippets_are_answered_from_those_that_fit(bench: Bench) -> None:
    many = [snippet(f"{number} " + "x" * 4990, f"d{number}") for number in range(200)]
    state = await answer(question_context(bench, asking(snippets=many)))
    assert state["exact_answer"] == "yes"
    assert flags(state) == {"left_out_snippets"}
    assert facts_of(state, "answer_ideally")[0]["left_out_snippets"] == 196


def runtime(**documents: Any) -> Runtime[Context[BioasqRecipe]]:
    """A recipe and three questions are all that routers read."""
    recipe = BioasqRecipe.model_validate({"documents": documents})
    cases = {"q": asking(), "s": asking("s", "summary"), "u": asking("u", None)}
    unused = cast(Any, None)
    return Runtime(context=Context(cases=cases, client=unused, prompts=unused, settings=recipe))


@pytest.mark.parametrize(
    ("documents", "first"),
    [
        ({"phase": "b"}, "adopt_snippets"),
        ({"phase": "b", "reformulations": 2}, "adopt_snippets"),
        ({"phase": "a"}, "retrieve_documents"),
        ({"phase": "both"}, "retrieve_documents"),
        ({"phase": "a", "reformulations": 2}, "reformulate_question"),
    ],
)
async def test_only_phase_b_begins_with_given_snippets(documents: dict[str, Any], first: str) -> None:
    assert await begin({"case_id": "q"}, runtime(**documents)) == first


@pytest.mark.parametrize(
    ("documents", "first", "second"),
    [
        ({}, "combine_rankings", "combine_rankings"),
        ({"reranker": "x"}, "rerank_documents", "combine_rankings"),
        ({"llm_rerank": True}, "rerank_by_model", "rerank_by_model"),
        ({"reranker": "x", "llm_rerank": True}, "rerank_documents", "rerank_by_model"),
    ],
)
async def test_documents_are_reranked_as_the_recipe_wants(
    documents: dict[str, Any], first: str, second: str
) -> None:
    assert await after_retrieval({"case_id": "q"}, runtime(**documents)) == first
    assert await after_reranking({"case_id": "q"}, runtime(**documents)) == second


@pytest.mark.parametrize(
    ("phase", "case_id", "following"),
    [
        ("a", "q", "__end__"),
        ("b", "q", "answer_exactly"),
        ("both", "q", "answer_exactly"),
        ("b", "s", "answer_ideally"),
        ("b", "u", "answer_exactly"),
        ("a", "u", "__end__"),
    ],
)
async def test_phase_a_ends_with_snippets_and_summaries_have_no_exact_answer(
    phase: str, case_id: str, following: str
) -> None:
    assert await after_snippets({"case_id": case_id}, runtime(phase=phase)) == following


@pytest.mark.parametrize(
    ("values", "off"),
    [
        (
            {"phase": "b"},
            {"retrieve_documents", "select_snippets", "rerank_by_model", "reformulate_question"},
        ),
        ({"phase": "a"}, {"adopt_snippets", "answer_exactly", "answer_ideally", "rerank_documents"}),
        ({"phase": "both"}, {"adopt_snippets", "rerank_by_model", "rerank_documents"}),
    ],
)
def test_nodes_that_a_phase_does_without_are_named(values: dict[str, Any], off: set[str]) -> None:
    recipe = BioasqRecipe.model_validate({"documents": values})
    unused = {node.name for node in SYSTEM.nodes if node.is_off(recipe)}
    assert off <= unused
    assert ("answer_exactly" in unused) == (values["phase"] == "a")
    assert ("retrieve_documents" in unused) == (values["phase"] == "b")


def test_the_recipe_writes_out_the_defaults_of_its_answers() -> None:
    """Its comments say where each value is from, so it has to have them all."""
    recipe = load_recipe("bioasq")
    assert isinstance(recipe, BioasqRecipe)
    assert (recipe.exact, recipe.ideal) == (BioasqRecipe().exact, BioasqRecipe().ideal)
    assert (recipe.exact.style, recipe.exact.shots) == (2, 1)
