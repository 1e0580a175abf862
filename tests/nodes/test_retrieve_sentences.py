"""Retrieval from the note."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from nodes.core.context import Context
from nodes.core.failure import NodeFailure
from nodes.core.records import same_evidence
from nodes.retrieval.retrieve_sentences import (
    ACRONYMS,
    RERANKER,
    RETRIEVER,
    RetrievalSettings,
    retrieve_sentences,
)
from ranking.cutoffs import Cutoff, TopK
from ranking.rankers.bm25 import Bm25Ranker
from ranking.rankers.ranker import Ranked, Ranker
from tests.nodes.builders import NOTE, Bench, case, facts, flags, run_node, with_tools

FIRST: Cutoff = TopK(k=1)


@dataclass
class ChosenScores:
    """Gives these scores, and remembers what it was asked."""

    scores: Sequence[float]
    cut_sentences: tuple[int, ...] = ()
    query_cut: bool = False
    cutoff: Cutoff = FIRST
    identity: str = "chosen@1"
    asked: list[tuple[str, list[str]]] = field(default_factory=list)

    def rank(self, query: str, sentences: Sequence[str]) -> Ranked:
        self.asked.append((query, list(sentences)))
        return Ranked(np.array(self.scores, dtype=np.float32), self.cut_sentences, self.query_cut)


def given(context: Context, retriever: Ranker, reranker: Ranker | None = None) -> Context:
    return with_tools(context, {RETRIEVER: retriever, RERANKER: reranker})


def top(k: int, **more: object) -> dict[str, object]:
    return {"cutoff": {"rule": "top_k", "k": k}, **more}


async def test_the_best_come_first_and_evidence_stands_in_note_order(bench: Bench) -> None:
    context = given(bench.context(system="heids", retrieval=top(2)), ChosenScores([0.3, 0.1, 0.4]))
    update = await run_node(retrieve_sentences, {"case_id": "q"}, context)
    assert update["retrieved"] == [{"id": "3", "score": 0.4}, {"id": "1", "score": 0.3}]
    assert update["evidence"] == same_evidence(["1", "3"])


async def test_the_decision_tells_k_and_the_scores_on_both_sides_of_the_cut(bench: Bench) -> None:
    context = given(bench.context(system="heids", retrieval=top(2)), ChosenScores([0.3, 0.1, 0.4]))
    update = await run_node(retrieve_sentences, {"case_id": "q"}, context)
    found = facts(update)
    assert (found["k"], found["sentences"], found["query"]) == (2, 3, ["patient", "clinician"])
    assert list(found["scores"].items()) == [("3", 0.4), ("1", 0.3), ("2", 0.1)]
    assert (found["retriever"], found["reranker"]) == ("chosen@1", None)
    assert update["decisions"][0]["because"] == "2 of 3 sentences by chosen, cut-off top_k=2"


async def test_equal_scores_keep_the_order_of_the_note(bench: Bench) -> None:
    context = given(bench.context(system="heids", retrieval=top(2)), ChosenScores([0.5, 0.5, 0.5]))
    update = await run_node(retrieve_sentences, {"case_id": "q"}, context)
    assert [one["id"] for one in update["retrieved"]] == ["1", "2"]


@pytest.mark.parametrize("rule", ["autocut", "autocut_star", "elbow", "surprise", "surprise_clean", "gap"])
@pytest.mark.parametrize("scores", [[0.5, 0.5, 0.5], [-1.0, -1.0, -1.0], [0.0, 0.0, 0.0], [0.9, 0.2, 0.1]])
async def test_every_rule_keeps_something_of_any_scores(bench: Bench, rule: str, scores: list[float]) -> None:
    context = given(bench.context(system="heids", retrieval={"cutoff": {"rule": rule}}), ChosenScores(scores))
    update = await run_node(retrieve_sentences, {"case_id": "q"}, context)
    assert 1 <= len(update["retrieved"]) <= 3


async def test_a_floor_is_told(bench: Bench) -> None:
    floor = {"cutoff": {"rule": "autocut_star", "minimum": 3}}
    context = given(bench.context(system="heids", retrieval=floor), ChosenScores([0.9, 0.2, 0.1]))
    update = await run_node(retrieve_sentences, {"case_id": "q"}, context)
    assert (facts(update)["k"], facts(update)["k_of_cutoff"]) == (3, 1)
    assert update["decisions"][0]["because"].endswith("without its floor 1")


SHARED = "Why was a stent placed in the duct?"
UNEVEN = (
    "A stent was placed in the duct.",
    "Meals were tolerated.",
    "The duct was dilated.",
    "Family visited.",
    "Sleep improved.",
)


@pytest.mark.parametrize("rule", ["autocut", "autocut_star", "elbow", "surprise", "surprise_clean", "gap"])
async def test_sentences_without_a_shared_word_are_not_retrieved(bench: Bench, rule: str) -> None:
    settings = {"cutoff": {"rule": rule}, "query": "clinician", "retriever": "bm25"}
    context = given(
        bench.context(case(note=UNEVEN, question=SHARED), system="heids", retrieval=settings), Bm25Ranker()
    )
    update = await run_node(retrieve_sentences, {"case_id": "q"}, context)
    assert {one["id"] for one in update["retrieved"]} <= {"1", "3"}
    assert all(one["score"] > 0 for one in update["retrieved"])


async def test_a_rule_that_would_keep_some_of_equals_says_so(bench: Bench) -> None:
    settings = {"cutoff": {"rule": "surprise"}, "query": "clinician", "retriever": "bm25"}
    context = given(
        bench.context(case(note=UNEVEN[1:2] * 4, question=SHARED), system="heids", retrieval=settings),
        Bm25Ranker(),
    )
    update = await run_node(retrieve_sentences, {"case_id": "q"}, context)
    assert [one["id"] for one in update["retrieved"]] == ["1"]
    assert "more share no word with the query" in update["decisions"][0]["because"]


async def test_a_number_that_the_user_gives_is_kept_whatever_the_scores(bench: Bench) -> None:
    settings = top(4, query="clinician", retriever="bm25")
    context = given(
        bench.context(case(note=UNEVEN, question=SHARED), system="heids", retrieval=settings), Bm25Ranker()
    )
    update = await run_node(retrieve_sentences, {"case_id": "q"}, context)
    assert [one["id"] for one in update["retrieved"]] == ["1", "3", "2", "4"]


@pytest.mark.parametrize(("question", "kept"), [("Duct?", 3), ("Zebra?", 3)])
async def test_a_floor_is_filled_in_note_order(bench: Bench, question: str, kept: int) -> None:
    floor = {"cutoff": {"rule": "surprise", "minimum": 3}, "query": "clinician", "retriever": "bm25"}
    context = given(
        bench.context(case(note=UNEVEN, question=question), system="heids", retrieval=floor), Bm25Ranker()
    )
    update = await run_node(retrieve_sentences, {"case_id": "q"}, context)
    assert len(update["retrieved"]) == kept
    assert {one["id"] for one in update["retrieved"]} == {"1", "2", "3"}


async def test_where_no_sentence_shares_a_word_the_first_stands_alone(bench: Bench) -> None:
    settings = {"query": "clinician", "retriever": "bm25"}
    context = given(
        bench.context(case(note=UNEVEN, question="Zebra?"), system="heids", retrieval=settings), Bm25Ranker()
    )
    update = await run_node(retrieve_sentences, {"case_id": "q"}, context)
    assert [one["id"] for one in update["retrieved"]] == ["1"]


async def test_a_rule_that_selects_nothing_keeps_the_best(bench: Bench) -> None:
    nothing = {"retriever": "logistic", "cutoff": {"rule": "threshold", "tau": 0.99, "fallback": False}}
    context = given(bench.context(system="heids", retrieval=nothing), ChosenScores([0.0, 0.1, -1.0]))
    update = await run_node(retrieve_sentences, {"case_id": "q"}, context)
    assert [one["id"] for one in update["retrieved"]] == ["2"]


async def test_a_reranker_scores_the_first_found_and_the_cut_off_follows_it(bench: Bench) -> None:
    reranker = ChosenScores([-5.0, 7.0], identity="second@1")
    context = given(
        bench.context(system="heids", retrieval=top(1, reranker="logistic", rerank_candidates=2)),
        ChosenScores([0.3, 0.1, 0.4]),
        reranker,
    )
    update = await run_node(retrieve_sentences, {"case_id": "q"}, context)
    assert reranker.asked[0][1] == [NOTE[2], NOTE[0]]
    assert update["retrieved"] == [{"id": "1", "score": 7.0}]
    assert list(facts(update)["scores"]) == ["1", "3"]
    assert "by chosen, then second, cut-off" in update["decisions"][0]["because"]


async def test_what_is_compared_is_cleaned_and_written_out_on_request(bench: Bench) -> None:
    one = case(note=["The PLT fell to 3.5!", "b", "c"], question="Why PLT?", narrative="I fell.")
    retriever = ChosenScores([1, 1, 1])
    context = given(bench.context(one, system="heids", retrieval={"clean": "heids"}), retriever)
    await run_node(
        retrieve_sentences, {"case_id": "q"}, with_tools(context, {ACRONYMS: {"PLT": "Platelet Count"}})
    )
    query, sentences = retriever.asked[0]
    assert sentences[0] == "the plt platelet count fell to 35"
    assert query == "Patient Narrative: i fell\nClinician Question: why plt platelet count"


async def test_texts_are_compared_as_they_are_by_default(bench: Bench) -> None:
    retriever = ChosenScores([1, 1, 1])
    await run_node(retrieve_sentences, {"case_id": "q"}, given(bench.context(system="heids"), retriever))
    assert retriever.asked[0][1] == list(NOTE)


@pytest.mark.parametrize(
    ("narrative", "question", "asked"),
    [("I fell.", "", "I fell."), ("", "Why?", "Why?"), (" ", "", "What now?")],
)
async def test_a_query_without_all_its_parts_is_flagged(
    bench: Bench, narrative: str, question: str, asked: str
) -> None:
    retriever = ChosenScores([1, 1, 1])
    context = given(bench.context(case(narrative=narrative, question=question), system="heids"), retriever)
    # The graph reads a question out of the patient's words only where the clinician has none.
    adopted = {} if question else {"patient_question": "What now?"}
    update = await run_node(retrieve_sentences, {"case_id": "q", **adopted}, context)
    assert retriever.asked[0][0] == asked
    assert flags(update) == {"incomplete_query"}


async def test_what_was_read_in_part_is_flagged(bench: Bench) -> None:
    retriever = ChosenScores([1, 1, 1], cut_sentences=(2,), query_cut=True)
    update = await run_node(
        retrieve_sentences, {"case_id": "q"}, given(bench.context(system="heids"), retriever)
    )
    assert flags(update) == {"cut_sentences", "cut_question"}
    assert facts(update)["cut_sentences"] == ["3"]


async def test_a_note_of_one_sentence_is_found(bench: Bench) -> None:
    context = given(bench.context(case(note=["One."]), system="heids"), ChosenScores([0.1]))
    update = await run_node(retrieve_sentences, {"case_id": "q"}, context)
    assert update["evidence"]["threshold"] == ["1"]


async def test_a_note_without_sentences_is_invalid_input(bench: Bench) -> None:
    with pytest.raises(NodeFailure, match="the note has no sentences") as caught:
        await run_node(
            retrieve_sentences,
            {"case_id": "q"},
            given(bench.context(case(note=[]), system="heids"), ChosenScores([])),
        )
    assert caught.value.error_class == "invalid_input"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
async def test_a_score_that_is_no_number_fails_the_case(bench: Bench, value: float) -> None:
    good, bad = ChosenScores([1, 1, 1]), ChosenScores([1, value, 1], identity="bad@1")
    for pair in ((bad, None), (good, bad)):
        with pytest.raises(NodeFailure, match="ranker bad@1 returned NaN or infinity"):
            await run_node(retrieve_sentences, {"case_id": "q"}, given(bench.context(system="heids"), *pair))


async def test_a_huge_note_leaves_a_small_decision(bench: Bench) -> None:
    many = 5_000
    huge = case(note=["x"] * many)
    context = given(
        bench.context(huge, system="heids", retrieval=top(many, candidates=700)),
        ChosenScores(list(range(many))),
    )
    update = await run_node(retrieve_sentences, {"case_id": "q"}, context)
    assert len(update["retrieved"]) == 700
    assert len(json.dumps(facts(update))) < 5_000


async def test_words_of_the_question_find_their_sentence(bench: Bench) -> None:
    context = given(bench.context(system="heids", retrieval=top(1, query="clinician")), Bm25Ranker())
    update = await run_node(retrieve_sentences, {"case_id": "q"}, context)
    assert [one["id"] for one in update["retrieved"]] == ["1"]


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"retriever": "bm25", "cutoff": {"rule": "threshold"}}, "scores of bm25 are not probabilities"),
        ({"acronyms": "mine.yaml"}, "acronyms names a table, but expand_acronyms is false"),
        ({"candidates": 0}, "candidates"),
    ],
)
def test_a_recipe_that_contradicts_itself_is_refused(values: dict[str, object], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        RetrievalSettings.model_validate(values)
