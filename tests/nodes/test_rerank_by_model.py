"""Listwise reranking: what is asked, what is read of a reply, and how windows slide."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cases.documents import Document
from nodes.retrieval.document_settings import DocumentSettings
from nodes.retrieval.rerank_by_model import read_permutation, rerank_by_model, window_starts
from serving.backends.scripted import ScriptedCall, made_up_reply
from serving.protocol.errors import InvalidReply
from tests.nodes.builders import Answering, Bench, asked, facts, failing, flags, run_node
from tests.nodes.literature_builders import document, found
from tests.nodes.search_builders import ids, order, ranking, search_context

DOCUMENTS = [document(f"d{number}", f"Word{number} of tea.") for number in range(1, 7)]
BEFORE = ranking(*(one.id for one in DOCUMENTS))
STATE = {"case_id": "q", "found_documents": found(*DOCUMENTS), "cross_encoder_ranking": BEFORE}


async def reranked(bench: Bench, label: Answering, kept: int = 3, **settings: Any) -> dict[str, Any]:
    context = search_context(bench, label=label, kept=kept, llm_rerank=True, **settings)
    update = await run_node(rerank_by_model, STATE, context)
    (decided,) = update["decisions"]
    return {
        "ids": ids(update["llm_ranking"]),
        "flags": flags(update),
        "facts": facts(update),
        "because": decided["because"],
    }


async def test_the_order_of_the_model_is_taken(bench: Bench) -> None:
    told = await reranked(bench, order(5, 1, 3))
    assert told["ids"] == ["d5", "d1", "d3"]
    assert told["flags"] == set()
    assert told["because"] == "the best 3 of 6 documents, asked for in 1 prompt"


@pytest.mark.parametrize(
    ("reply", "expected", "unknown"),
    [
        (order("d4", 2, "6"), ["d4", "d2", "d6"], 0),
        (order(4, 4, 99, "none", 2), ["d4", "d2", "d1"], 2),
        (order(6), ["d6", "d1", "d2"], 0),
        ("The best are [2, 5, 1].", ["d2", "d5", "d1"], 0),
        (order("[3]", True, None, 1.5, 1), ["d3", "d1", "d2"], 3),
    ],
)
async def test_a_reply_is_mended_and_filled_in_the_order_before(
    bench: Bench, reply: str, expected: list[str], unknown: int
) -> None:
    told = await reranked(bench, reply)
    assert told["ids"] == expected
    assert len(told["facts"]["unknown_ids"]) == unknown
    assert (f"; {unknown} unknown and " in told["because"]) == bool(unknown)
    assert ("were filled in the order of" in told["because"]) == bool(told["facts"]["padded"])
    assert ("mended_ranking" in told["flags"]) == bool(unknown)


@pytest.mark.parametrize(
    "label",
    [failing("timeout"), "I cannot tell.", "They are [2, and 1].", order(), order(77), '{"ranking": 3}'],
)
async def test_without_an_order_that_of_the_cross_encoder_stands(bench: Bench, label: Answering) -> None:
    told = await reranked(bench, label)
    assert told["ids"] == ["d1", "d2", "d3"]
    assert told["flags"] == {"failed_ranking"}
    assert told["because"].startswith("kept the order of ")


async def test_a_candidate_is_a_number_a_title_and_the_beginning_of_an_abstract(bench: Bench) -> None:
    long = Document("long", "A ${question} title.", "one two\n\n[2] three " * 10)
    state = {**STATE, "found_documents": found(DOCUMENTS[0], long)}
    state["cross_encoder_ranking"] = ranking("d1", "long")
    context = search_context(bench, label=order(2, 1), llm_rerank=True, passage_words=10)
    await run_node(rerank_by_model, state, context)
    (call,) = asked(context)
    text = call.prompt[-1][1]
    lines = [line for line in text.splitlines() if line.startswith("[")]
    assert lines[0] == "[1] Trial d1. Word1 of tea."
    assert lines[1] == "[2] A ${question} title. one two [2] three one two [2] three one two ..."
    assert "from 1 to 2, of the 2 best" in text
    assert call.schema_ is not None
    assert call.schema_["properties"]["ranking"]["items"]["enum"] == [1, 2]


async def test_a_document_from_the_end_comes_up_through_the_windows(bench: Bench) -> None:
    def prefers_the_last(call: ScriptedCall) -> str:
        numbers = [int(number) for number in re.findall(r"^\[(\d+)\]", call.prompt[-1][1], re.MULTILINE)]
        sixth = re.search(r"^\[(\d+)\] Trial d6", call.prompt[-1][1], re.MULTILINE)
        return order(int(sixth[1]) if sixth else numbers[0], *numbers)

    told = await reranked(bench, prefers_the_last, kept=2, window=3, step=1)
    assert told["ids"] == ["d6", "d1"]
    assert told["facts"]["windows"] == 4


async def test_a_prompt_that_is_too_long_shows_fewer_documents(bench: Bench) -> None:
    told = await reranked(bench, order(2, 1), max_tokens=16, context_length=174)
    assert told["facts"]["dropped_documents"] == ["d5", "d6"]
    assert told["ids"] == ["d2", "d1", "d3"]
    assert told["flags"] == {"dropped_documents"}


async def test_a_prompt_without_room_for_two_documents_leaves_the_order(bench: Bench) -> None:
    told = await reranked(bench, order(2, 1), max_tokens=16, context_length=100)
    assert told["ids"] == ["d1", "d2", "d3"]
    assert told["facts"]["failed_windows"][0].startswith("context_length: ")
    one = await reranked(bench, order(2, 1), max_tokens=16, context_length=155)
    assert one["facts"]["failed_windows"] == ["context_length: the prompt has no room for two documents"]


async def test_one_document_is_in_order_without_a_prompt(bench: Bench) -> None:
    context = search_context(bench, label=order(1), kept=3, llm_rerank=True)
    update = await run_node(rerank_by_model, {**STATE, "cross_encoder_ranking": ranking("d4")}, context)
    assert (ids(update["llm_ranking"]), asked(context)) == (["d4"], [])
    assert update["decisions"][0]["because"] == "nothing to order in 1 document"


async def test_a_window_without_an_order_is_counted(bench: Bench) -> None:
    told = await reranked(
        bench,
        lambda call: order(2, 1) if "Word1" in call.prompt[-1][1] else "None.",
        window=4,
        step=2,
        kept=2,
    )
    assert told["because"].endswith("; 1 prompts gave no order")


async def test_a_scripted_model_makes_up_an_order(bench: Bench) -> None:
    told = await reranked(bench, made_up_reply, kept=6)
    assert sorted(told["ids"]) == [f"d{number}" for number in range(1, 7)]
    assert told["ids"] != sorted(told["ids"])
    assert told["flags"] == set()


@pytest.mark.parametrize(
    ("candidates", "window", "step", "expected"),
    [
        (30, 30, 10, [0]),
        (31, 30, 10, [1, 0]),
        (50, 30, 10, [20, 10, 0]),
        (6, 3, 1, [3, 2, 1, 0]),
        (1, 30, 10, []),
        (0, 30, 10, []),
    ],
)
def test_windows_slide_from_the_end_to_the_front(
    candidates: int, window: int, step: int, expected: list[int]
) -> None:
    assert window_starts(candidates, window, step) == expected


def test_windows_that_would_lose_what_the_one_before_put_first_are_refused() -> None:
    with pytest.raises(ValidationError, match="kept 10 is above window 12 less step 4"):
        DocumentSettings(llm_rerank=True, window=12, step=4)
    with pytest.raises(ValidationError, match="step 13 is above window 12: documents would be left out"):
        DocumentSettings(window=12, step=13)
    DocumentSettings(llm_rerank=True, window=12, step=4, kept=8)


@given(st.text(max_size=80), st.integers(1, 5))
def test_any_text_is_an_order_of_known_documents_or_no_order(text: str, wanted: int) -> None:
    known = ["17", "23", "x"]
    try:
        said = read_permutation(text, known, wanted)
    except InvalidReply:
        return
    assert set(said.ids) <= set(known)
    assert 0 < len(said.ids) == len(set(said.ids)) <= wanted


def test_a_number_that_could_be_both_is_that_of_a_candidate() -> None:
    assert read_permutation(order(2, 17), ["17", "99"], 2).ids == ["99", "17"]
