"""Whole runs of `bioasq` that search: phase A, and both phases."""

from __future__ import annotations

from typing import Any, cast

from graph.system import find_system
from nodes.answer.question_prompt import ANSWERED_QUESTIONS
from nodes.core.context import Context
from nodes.retrieval.document_texts import CORPUS, DOCUMENT_RERANKER, INDEX
from serving.backends.scripted import made_up_reply
from tests.graph.routes import route
from tests.nodes.biomedical_builders import asking
from tests.nodes.builders import Bench, with_tools
from tests.nodes.literature_builders import InMemory, document
from tests.nodes.search_builders import ChosenScores, Neighbours

GRAPH = find_system("bioasq").graph
DOCUMENTS = [
    document("mint", "Mint tea does relieve a cough."),
    document("honey", "Honey relieves a cough at night."),
    document("tea", "Black tea keeps awake."),
]
SEARCH = ["retrieve_documents", "combine_rankings", "select_snippets"]


def searching(bench: Bench, type_: Any = "yesno", **documents: Any) -> Context:
    """A model makes up what is asked of it."""
    case = asking(type_=type_, question="Does mint tea relieve a cough?", snippets=())
    return bench.context(
        case,
        system="bioasq",
        replies=made_up_reply,
        tools={CORPUS: InMemory(DOCUMENTS), INDEX: Neighbours(DOCUMENTS), ANSWERED_QUESTIONS: {}},
        documents=documents,
        exact={"shots": 0},
    )


async def end(context: Context) -> dict[str, Any]:
    return cast("dict[str, Any]", await GRAPH.ainvoke({"case_id": "q"}, context=context))


async def test_phase_a_ends_with_documents_and_snippets(bench: Bench) -> None:
    state = await end(searching(bench, phase="a"))
    assert route(state) == SEARCH
    assert state["document_ranking"][0]["id"] == "mint"
    assert state["snippets"][0]["text"] == "Mint tea does relieve a cough."
    assert "exact_answer" not in state
    assert "answer" not in state


async def test_both_phases_answer_from_what_was_found(bench: Bench) -> None:
    context = searching(bench, phase="both")
    state = await end(context)
    assert route(state) == [*SEARCH, "answer_exactly", "aggregate_exact_answers", "answer_ideally"]
    assert state["exact_answer"] in ("yes", "no")


async def test_a_question_without_type_can_be_searched_for(bench: Bench) -> None:
    assert len((await end(searching(bench, None, phase="a")))["document_ranking"]) == 3


async def test_every_stage_runs_where_the_recipe_wants_it(bench: Bench) -> None:
    wanted = {"reformulations": 1, "reranker": "chosen", "llm_rerank": True, "kept": 2}
    context = searching(bench, "summary", phase="both", **wanted)
    reranker = ChosenScores({"Black": 2.0, "Honey": 1.0})
    state = await end(with_tools(context, {DOCUMENT_RERANKER: reranker}))
    assert route(state) == [
        "reformulate_question",
        "retrieve_documents",
        "rerank_documents",
        "rerank_by_model",
        "combine_rankings",
        "select_snippets",
        "answer_ideally",
    ]
    assert len(state["queries"]) == 2
    assert [one["id"] for one in state["cross_encoder_ranking"]] == ["tea", "honey", "mint"]
    assert len(state["document_ranking"]) == 2
