"""The nodes that find documents and snippets, one by one."""

from __future__ import annotations

import json
import math

import pytest

from cases.documents import Document
from nodes.core.failure import NodeFailure, as_failure
from nodes.retrieval.combine_rankings import combine_rankings
from nodes.retrieval.reformulate_question import reformulate_question
from nodes.retrieval.rerank_documents import rerank_documents
from nodes.retrieval.retrieve_documents import retrieve_documents
from nodes.retrieval.select_snippets import select_snippets
from tests.nodes.builders import Bench, asked, facts, failing, flags, run_node
from tests.nodes.literature_builders import QUESTION, document, found
from tests.nodes.search_builders import ChosenScores, ids, ranking, search_context

MINT = document("mint", "Mint tea does relieve a cough.")
TEA = document("tea", "Black tea keeps awake.")
HONEY = document("honey", "Honey was given at night.")
Q = {"case_id": "q"}


def queries(*texts: str) -> str:
    return json.dumps({"queries": list(texts)})


async def test_further_queries_follow_the_question(bench: Bench) -> None:
    context = search_context(bench, label=queries("mint against cough", "menthol"), reformulations=2)
    update = await run_node(reformulate_question, Q, context)
    assert update["queries"] == [QUESTION, "mint against cough", "menthol"]
    assert "write 2 more search" in asked(context)[0].prompt[0][1]


async def test_a_query_that_repeats_the_question_is_dropped(bench: Bench) -> None:
    said = queries("does mint tea relieve  COUGH", "menthol\nlozenge", "Menthol lozenge?", "")
    update = await run_node(reformulate_question, Q, search_context(bench, label=said, reformulations=4))
    assert update["queries"] == [QUESTION, "menthol lozenge"]
    assert facts(update)["repeated"] == 2


@pytest.mark.parametrize("label", [failing("timeout"), "no JSON", queries(), '{"queries": [1]}'])
async def test_without_further_queries_the_question_alone_is_searched_for(
    bench: Bench, label: object
) -> None:
    context = search_context(bench, label=label, reformulations=2)  # type: ignore[arg-type]
    update = await run_node(reformulate_question, Q, context)
    assert update["queries"] == [QUESTION]
    # `[1]` breaks the schema of the reply; an empty list is an answer.
    failed = {"failed_reformulation"} if label not in (queries(), '{"queries": []}') else set()
    assert flags(update) == {"no_reformulation", *failed}


async def test_one_retriever_keeps_its_scores(bench: Bench) -> None:
    words = await run_node(
        retrieve_documents, Q, search_context(bench, TEA, MINT, HONEY, retriever="words", depth=5)
    )
    assert [(one["id"], one["score"]) for one in words["found_documents"]] == [("mint", 4.0), ("tea", 1.0)]
    dense = await run_node(
        retrieve_documents, Q, search_context(bench, neighbours=[HONEY, TEA], retriever="dense", depth=1)
    )
    assert [(one["id"], one["score"]) for one in dense["found_documents"]] == [("honey", 0.99)]


async def test_a_hybrid_search_fuses_both_by_rank(bench: Bench) -> None:
    context = search_context(bench, TEA, MINT, neighbours=[HONEY, TEA], retriever="hybrid", depth=5)
    update = await run_node(retrieve_documents, Q, context)
    assert ids(update["found_documents"]) == ["tea", "honey", "mint"]
    assert update["found_documents"][0]["score"] == pytest.approx(2 / 62, abs=1e-6)
    assert facts(update)["lists"] == [
        {"query": 0, "retriever": "dense", "found": 2},
        {"query": 0, "retriever": "words", "found": 2},
    ]


async def test_every_query_is_searched_for(bench: Bench) -> None:
    context = search_context(bench, TEA, MINT, HONEY, retriever="words", depth=2)
    state = {**Q, "queries": [QUESTION, "honey at night", "was given honey"]}
    update = await run_node(retrieve_documents, state, context)
    assert ids(update["found_documents"]) == ["honey", "mint"], "cut to the depth after they are fused"
    assert (facts(update)["different"], facts(update)["found"]) == (3, 2)


async def test_the_trace_names_the_best_and_counts_the_rest(bench: Bench) -> None:
    many = [document(f"d{number}") for number in range(200)]
    context = search_context(bench, neighbours=many, retriever="dense", depth=150, cross_encoder="a/folder")
    update = await run_node(retrieve_documents, Q, context)
    assert len(update["found_documents"]) == 150
    assert (len(facts(update)["documents"]), facts(update)["found"]) == (30, 150)
    assert "Mint tea was given" not in json.dumps(update["decisions"])


async def test_without_a_cross_encoder_only_the_best_go_on_and_are_the_ranking(bench: Bench) -> None:
    context = search_context(bench, neighbours=[HONEY, TEA, MINT], retriever="dense", reranked=2)
    update = await run_node(retrieve_documents, Q, context)
    assert ids(update["cross_encoder_ranking"]) == ids(update["found_documents"]) == ["honey", "tea"]
    assert facts(update)["found"] == 3


async def test_a_search_without_a_hit_says_so(bench: Bench) -> None:
    update = await run_node(retrieve_documents, Q, search_context(bench, retriever="words"))
    assert update["found_documents"] == []
    assert flags(update) == {"nothing_found"}


async def test_a_store_that_does_not_answer_fails_the_case_by_its_class(bench: Bench) -> None:
    context = search_context(bench, MINT, index_fails=True, retriever="hybrid")
    with pytest.raises(Exception, match="the store does not answer") as failed:
        await run_node(retrieve_documents, Q, context)
    assert as_failure(failed.value).error_class == "connection"


async def test_a_cross_encoder_reads_title_and_abstract_and_keeps_the_best(bench: Bench) -> None:
    scores = ChosenScores({"Trial honey. Honey was": 2.5, "Trial tea": -1.0, "Trial mint": -3.0}, cut=(1,))
    context = search_context(bench, reranker=scores, reranked=2)
    update = await run_node(rerank_documents, {**Q, "found_documents": found(MINT, TEA, HONEY)}, context)
    assert update["cross_encoder_ranking"] == [
        {"id": "honey", "rank": 1, "score": 2.5},
        {"id": "tea", "rank": 2, "score": -1.0},
    ]
    assert facts(update)["found_at"] == {"honey": 3, "tea": 2}
    assert (facts(update)["cut_passages"], flags(update)) == (1, {"cut_documents"})


async def test_texts_of_documents_that_nobody_reads_any_more_leave_the_state(bench: Bench) -> None:
    context = search_context(bench, reranker=ChosenScores({"honey": 1.0}), reranked=1)
    update = await run_node(rerank_documents, {**Q, "found_documents": found(MINT, HONEY)}, context)
    assert ids(update["found_documents"]) == ["honey"]


async def test_equal_scores_stay_in_the_order_of_the_search(bench: Bench) -> None:
    context = search_context(bench, reranker=ChosenScores({}))
    update = await run_node(rerank_documents, {**Q, "found_documents": found(TEA, MINT, HONEY)}, context)
    assert ids(update["cross_encoder_ranking"]) == ["tea", "mint", "honey"]


@pytest.mark.parametrize("node", [rerank_documents, select_snippets])
async def test_a_score_that_is_no_number_fails_the_case(bench: Bench, node: object) -> None:
    context = search_context(bench, reranker=ChosenScores({"Mint": math.nan, "mint": math.nan}))
    state = {**Q, "found_documents": found(MINT), "document_ranking": ranking("mint")}
    with pytest.raises(NodeFailure, match="NaN or infinity"):
        await run_node(node, state, context)  # type: ignore[arg-type]


FIRST = ranking(*"abcde", scores=[3.2, 1.1, 0.7, -0.4, -2.0])
SECOND = [{**one, "score": None} for one in ranking(*"cafbd")]
BOTH = {**Q, "cross_encoder_ranking": FIRST, "llm_ranking": SECOND}


async def test_weighted_scores_make_the_ranking_of_the_answer(bench: Bench) -> None:
    update = await run_node(combine_rankings, BOTH, search_context(bench, kept=4))
    assert ids(update["document_ranking"]) == ["c", "a", "f", "b"]
    assert update["document_ranking"][0]["score"] == pytest.approx(7.5192, abs=1e-4)
    assert facts(update)["first"] == list("abcde")
    assert facts(update)["second"] == list("cafbd")
    assert facts(update)["scores_from"] == ["minmax", "linear"]


@pytest.mark.parametrize(("ensemble", "expected"), [("nomination", "abcfd"), ("llm", "cafbd")])
async def test_a_recipe_can_nominate_or_take_the_models_order(
    bench: Bench, ensemble: str, expected: str
) -> None:
    context = search_context(bench, kept=5, ensemble=ensemble, nominated=2)
    update = await run_node(combine_rankings, BOTH, context)
    assert ids(update["document_ranking"]) == list(expected)


async def test_one_ranking_is_taken_as_it_is(bench: Bench) -> None:
    state = {**Q, "cross_encoder_ranking": FIRST}
    update = await run_node(combine_rankings, state, search_context(bench, kept=3))
    assert update["document_ranking"] == FIRST[:3]
    assert flags(update) == set()


async def test_an_answer_with_fewer_documents_than_wanted_says_so(bench: Bench) -> None:
    update = await run_node(combine_rankings, BOTH, search_context(bench))
    assert len(update["document_ranking"]) == 6
    assert flags(update) == {"fewer_documents"}


ABSTRACT = "  Mint was  given to 4 pts. The cough\nwent. It was late. "


async def test_snippets_are_sentences_with_their_exact_place(bench: Bench) -> None:
    one = Document("one", "Of mint", ABSTRACT, 2010)
    state = {**Q, "found_documents": found(MINT, one), "document_ranking": ranking("one")}
    scores = ChosenScores({"cough": 2.0, "Of mint": 1.0})
    update = await run_node(select_snippets, state, search_context(bench, reranker=scores, snippets=3))
    best, second, third = update["snippets"]
    assert best == {
        "document": "one",
        "section": "abstract",
        "begin": 28,
        "end": 43,
        "text": "The cough\nwent.",
    }
    assert (second["section"], second["begin"], second["end"]) == ("title", 0, 7)
    for snippet in (best, third):
        assert ABSTRACT[snippet["begin"] : snippet["end"]] == snippet["text"]
    assert "text" not in facts(update)["snippets"][0]
    bare = {**state, "found_documents": found(Document("one", "", " ", 2010))}
    assert flags(await run_node(select_snippets, bare, search_context(bench))) == {"no_snippets"}


async def test_without_a_cross_encoder_bm25_chooses_snippets(bench: Bench) -> None:
    state = {**Q, "found_documents": found(HONEY, MINT), "document_ranking": ranking("honey", "mint")}
    update = await run_node(select_snippets, state, search_context(bench, snippets=1))
    assert [one["text"] for one in update["snippets"]] == [MINT.text]
    assert facts(update)["ranker"] == "bm25"


async def test_no_document_gives_no_snippet_and_says_so(bench: Bench) -> None:
    state = {**Q, "found_documents": [], "document_ranking": []}
    update = await run_node(select_snippets, state, search_context(bench))
    assert update["snippets"] == []
    assert flags(update) == {"no_snippets"}
