"""Whole runs of `timeaware` over invented documents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from cases.records import Case
from graph.recipe import load_recipe
from graph.timeaware import SYSTEM, TimeawareRecipe
from nodes.core.context import Context
from runs.execute.case_run import run_case
from tests.graph.routes import facts_of, route
from tests.nodes.builders import Bench, asked, failing, flags, never
from tests.nodes.literature_builders import (
    ChosenVectors,
    document,
    literature_context,
    question,
    reading_by_word,
)

GRAPH = SYSTEM.graph
READ = ["search_literature", "filter_documents", "select_passages", "read_passages", "aggregate_verdict"]
OLD = document("old", "Mint tea supports a cough.", 1998, 41)
NEW = document("new", "Mint tea refutes a cough.", 2012, 88)
REVIEW = document("review", "Mint tea refutes any cough.", 2019, 57, "Systematic Review")
EMPTY = {"supports": 0, "neutral": 0, "refutes": 0, "missing": 0}


async def answer(context: Context) -> dict[str, Any]:
    return cast("dict[str, Any]", await GRAPH.ainvoke({"case_id": "q"}, context=context))


async def test_the_majority_of_the_documents_answers_the_question(bench: Bench) -> None:
    state = await answer(literature_context(bench, OLD, NEW, REVIEW))
    assert route(state) == READ
    assert state["verdict"] == "no"
    assert state["reading_counts"] == {"supports": 1, "neutral": 0, "refutes": 2, "missing": 0}
    assert flags(state) == {"evidence_disagrees"}


async def test_a_question_of_the_past_is_answered_from_what_was_known_then(bench: Bench) -> None:
    state = await answer(literature_context(bench, OLD, NEW, REVIEW, case=question(as_of=2005)))
    assert state["verdict"] == "yes"
    dropped = facts_of(state, "filter_documents")[0]["dropped"]
    assert {one["id"]: one["reason"] for one in dropped} == {
        "new": "of 2012, after 2005",
        "review": "of 2019, after 2005",
    }


async def test_evidence_comes_with_its_text_year_and_source(bench: Bench) -> None:
    state = await answer(literature_context(bench, REVIEW))
    (passage,) = state["evidence_passages"]
    shown = {name: passage[name] for name in ("document", "title", "year", "source", "citations", "text")}
    assert shown == {
        **{"document": "review", "title": "Trial review", "year": 2019, "citations": 57},
        **{"source": "Journal of Inventions", "text": "Mint tea refutes any cough."},
    }
    assert (passage["strength"], passage["reading"]) == ("systematic_review", "refutes")
    assert state["disagreement"]["by_strength"]["systematic_review"]["refutes"] == 1


@pytest.mark.parametrize(("classes", "verdict"), [(3, "unknown"), (2, "no")])
async def test_without_a_document_left_nobody_is_asked_and_the_rule_decides(
    bench: Bench, classes: int, verdict: str
) -> None:
    context = literature_context(
        bench, OLD, label=never, literature={"minimum_year": 2020}, verdict={"classes": classes}
    )
    state = await answer(context)
    assert route(state) == ["search_literature", "filter_documents", "aggregate_verdict"]
    assert (state["verdict"], state["reading_counts"]) == (verdict, EMPTY)
    assert flags(state) == {"no_document_left", "no_evidence"}


async def test_a_question_in_another_language_runs_and_is_flagged(bench: Bench) -> None:
    german = question(asked="Hilft Pfefferminztee gegen Husten?")
    state = await answer(literature_context(bench, OLD, label=never, case=german))
    assert state["verdict"] == "unknown"
    assert flags(state) == {"nothing_found", "no_evidence"}


async def test_each_of_the_nearest_sentences_is_one_vote(bench: Bench) -> None:
    text = "Mint tea supports a cough. It supports sleep. It refutes nothing."
    vectors = ChosenVectors({"It refutes nothing.": 0.9, "It supports sleep.": 0.8})
    context = literature_context(
        bench, document("a", text), vectors=vectors, reading={"doc_mode": "top_j", "j": 2}
    )
    state = await answer(context)
    assert [one["text"] for one in state["evidence_passages"]] == [
        "It refutes nothing.",
        "It supports sleep.",
    ]
    assert state["verdict"] == "yes", "a tie goes to supports"


async def test_the_released_behaviour_is_named_in_the_trace(bench: Bench) -> None:
    recipe = load_recipe("timeaware-released")
    values = recipe.model_dump(mode="json", include={"literature", "reading", "verdict"})
    state = await answer(literature_context(bench, OLD, vectors=ChosenVectors({}), **values))
    assert facts_of(state, "aggregate_verdict")[0]["released_behaviour"] == [
        "doc_mode=top3",
        "lowercase=true",
    ]
    assert state["evidence_passages"][0]["text"] == "mint tea supports a cough."


async def test_an_explanation_is_written_only_where_it_is_wanted(bench: Bench) -> None:
    explained = literature_context(bench, OLD, answer="It helps [1].", verdict={"explain": True})
    state = await answer(explained)
    assert route(state) == [*READ, "explain_verdict"]
    assert state["explanation"] == "It helps [1]."
    assert "explanation" not in await answer(literature_context(bench, OLD))


async def test_nothing_is_explained_from_no_evidence(bench: Bench) -> None:
    context = literature_context(bench, answer=never, verdict={"explain": True})
    assert "explanation" not in await answer(context)


async def test_a_case_without_a_question_is_asked_for_its_patients(bench: Bench) -> None:
    patient = Case("q", "I cough. Does mint tea help a cough?", "", ())
    context = literature_context(bench, OLD, case=patient)
    state = await answer(context)
    assert route(state)[0] == "adopt_patient_question"
    assert "Question: Does mint tea help a cough?" in asked(context, "label")[0].prompt[-1][1]


async def test_a_reader_that_fails_fails_the_case_and_gives_no_verdict(bench: Bench) -> None:
    context = literature_context(bench, OLD, NEW, label=failing("timeout"))
    result = await run_case(SYSTEM, GRAPH, context, question())
    assert (result.line["status"], result.line["verdict"]) == ("failed", None)
    assert result.line["error"]["class"] == "timeout"


async def test_a_refill_reads_deeper_ranks(bench: Bench) -> None:
    context = literature_context(
        bench, OLD, NEW, REVIEW, literature={"k": 1, "refill": True, "minimum_year": 2000}
    )
    state = await answer(context)
    assert [one["document"] for one in state["evidence_passages"]] == ["new"]


async def test_fewer_documents_ask_nothing_that_more_have_not_asked(bench: Bench) -> None:
    context = literature_context(bench, OLD, NEW, label=reading_by_word)
    await answer(context)
    narrower = literature_context(bench, OLD, NEW, label=never, literature={"k": 1})
    shared = replace(context, settings=narrower.settings)
    before = len(asked(context))
    assert (await answer(shared))["verdict"] == "yes"
    assert len(asked(context)) == before


def test_the_recipe_is_the_defaults() -> None:
    """Its comments say where each value is from, so it has to have them all."""
    assert load_recipe("timeaware") == TimeawareRecipe()
