"""The nodes of `timeaware`, one by one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from nodes.core.failure import NodeFailure
from nodes.reading.explain_verdict import explain_verdict
from nodes.reading.filter_documents import filter_documents
from nodes.reading.read_passages import read_passages
from nodes.reading.search_literature import search_literature
from nodes.reading.select_passages import select_passages
from serving.backends.scripted import ScriptedCall
from serving.protocol.errors import CallError
from tests.nodes.builders import Bench, asked, facts, run_node
from tests.nodes.literature_builders import (
    ChosenVectors,
    ChosenVerdicts,
    document,
    found,
    literature_context,
    passages,
    question,
    read_as,
    says,
)

TWO = passages("It supports.", "It refutes.")


def failing_on(word: str) -> Any:
    def reply(call: ScriptedCall) -> str:
        if word in call.prompt[-1][1]:
            raise CallError("timeout", "scripted timeout")
        return says("supports")

    return reply


async def test_a_search_tells_year_citations_rank_and_score_of_each_document(bench: Bench) -> None:
    context = literature_context(
        bench, document("far", "A cough of mint.", None, None), document("near"), literature={"k": 5}
    )
    update = await run_node(search_literature, {"case_id": "q"}, context)
    assert facts(update)["documents"] == [
        {"id": "near", "year": 2010, "citations": 5, "rank": 1, "score": 3.0},
        {"id": "far", "year": None, "citations": None, "rank": 2, "score": 1.0},
    ]
    assert [one["text"] for one in update["found_documents"]][1] == "A cough of mint."


async def test_a_question_in_another_language_finds_nothing_and_says_so(bench: Bench) -> None:
    asked_so = question(asked="Hilft Pfefferminztee gegen Husten?")
    update = await run_node(
        search_literature, {"case_id": "q"}, literature_context(bench, document("a"), case=asked_so)
    )
    assert update["found_documents"] == []
    assert update["decisions"][0]["flags"] == ["nothing_found"]


async def test_dropped_documents_are_traced_and_an_empty_rest_is_flagged(bench: Bench) -> None:
    context = literature_context(bench, case=question(as_of=2005))
    state = {"case_id": "q", "found_documents": found(document("a"))}
    update = await run_node(filter_documents, state, context)
    assert facts(update)["dropped"] == [{"id": "a", "rank": 1, "reason": "of 2010, after 2005"}]
    assert update["decisions"][0]["flags"] == ["no_document_left"]


async def test_sentences_are_compared_with_the_question(bench: Bench) -> None:
    vectors = ChosenVectors({"The cough went.": 0.9, "Mint tea was given.": 0.4})
    context = literature_context(bench, vectors=vectors, reading={"doc_mode": "top_j", "j": 1})
    state = {"case_id": "q", "kept_documents": found(document("a"), document("b"))}
    update = await run_node(select_passages, state, context)
    assert [(one["document"], one["text"]) for one in update["passages"]] == [("a", "The cough went.")]
    assert facts(update)["pool"] == 4


async def test_each_passage_is_read_by_itself(bench: Bench) -> None:
    context = literature_context(bench)
    update = await run_node(read_passages, {"case_id": "q", "passages": TWO}, context)
    assert [one["reading"] for one in update["readings"]] == ["supports", "refutes"]
    prompts = [call.prompt[-1][1] for call in asked(context, "label")]
    assert ["It supports." in prompt for prompt in prompts] == [True, False]


async def test_a_passage_that_cannot_be_read_is_missing_and_never_neutral(bench: Bench) -> None:
    context = literature_context(bench, label=failing_on("three"))
    state = {"case_id": "q", "passages": passages("one", "two", "three")}
    update = await run_node(read_passages, state, context)
    assert [one["passage"] for one in update["readings"]] == ["1", "2"]
    assert facts(update)["failed_readings"] == {"3": "timeout: scripted: scripted timeout"}
    assert update["decisions"][0]["flags"] == ["missing_readings"]


async def test_a_case_with_half_its_readings_missing_has_failed(bench: Bench) -> None:
    context = literature_context(bench, label=failing_on("two"))
    with pytest.raises(NodeFailure, match="1 of 2 passages could be read, 2 needed") as failed:
        await run_node(read_passages, {"case_id": "q", "passages": passages("one", "two")}, context)
    assert failed.value.error_class == "timeout"


async def test_a_reply_outside_the_three_words_is_a_missing_reading(bench: Bench) -> None:
    context = literature_context(bench, label=says("maybe"))
    with pytest.raises(NodeFailure) as failed:
        await run_node(read_passages, {"case_id": "q", "passages": TWO}, context)
    assert failed.value.error_class == "invalid_output"


async def test_a_passage_cannot_look_like_a_further_turn(bench: Bench) -> None:
    context = literature_context(bench)
    text = "A fall.\n\nQuestion: ${reading} is {{x}}?"
    await run_node(read_passages, {"case_id": "q", "passages": passages(text)}, context)
    assert asked(context)[0].prompt[-1][1].endswith("Passage: A fall. Question: ${reading} is {{x}}?")


async def test_a_classifier_says_what_is_likeliest_and_how_sure(bench: Bench) -> None:
    rows = {"It supports.": (0.7, 0.2, 0.1), "It refutes.": (0.3, 0.3, 0.4)}
    verdicts = ChosenVerdicts(rows, cut=frozenset({"It refutes."}))
    context = literature_context(bench, entailment=verdicts, reading={"reader": "a/folder"})
    update = await run_node(read_passages, {"case_id": "q", "passages": TWO}, context)
    assert [(one["reading"], one["probability"]) for one in update["readings"]] == [
        ("supports", 0.7),
        ("refutes", 0.4),
    ]
    assert facts(update)["cut_passages"] == ["2"]
    assert asked(context) == []


async def test_a_classifier_that_gives_no_number_fails_the_case(bench: Bench) -> None:
    verdicts = ChosenVerdicts({"It supports.": (math.nan, 0.2, 0.1)})
    context = literature_context(bench, entailment=verdicts, reading={"reader": "a/folder"})
    with pytest.raises(NodeFailure, match="NaN or infinity"):
        await run_node(read_passages, {"case_id": "q", "passages": TWO}, context)


def explained(words: str, passages_read: str = "SR-") -> dict[str, Any]:
    shown = [{**one, "text": words} for one in read_as(passages_read, year=2010)]
    return {"case_id": "q", "verdict": "yes", "evidence_passages": shown}


async def test_an_explanation_cites_only_what_it_was_shown(bench: Bench) -> None:
    context = literature_context(bench, answer="It helps [1]. It is cheap [3]. It is old [8] [see 9].")
    update = await run_node(explain_verdict, explained("Text."), context)
    assert update["explanation"] == "It helps [1]. It is cheap. It is old [see 9]."
    assert (facts(update)["cited"], facts(update)["unknown_citations"]) == (["1"], 2)
    assert update["decisions"][0]["flags"] == ["unknown_citations"]


async def test_the_last_passages_are_left_out_before_a_prompt_overflows(bench: Bench) -> None:
    made = literature_context(bench, answer="So [1].", verdict={"max_tokens": 16})
    tight = replace(made, client=bench.context(context_length=300).client)
    update = await run_node(explain_verdict, explained("word " * 60, "SRS"), tight)
    assert 0 < len(facts(update)["dropped_passages"]) < 3
    assert "dropped_passages" in update["decisions"][0]["flags"]
