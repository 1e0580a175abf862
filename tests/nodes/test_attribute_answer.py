from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.citing.attribute_answer import attribute_answer, cited_at
from nodes.core.context import VECTORS as VECTOR_TOOL
from nodes.core.records import Attribution
from ranking.attribution import Weights
from tests.nodes.builders import NOTE, TWO_SENTENCES, Bench, case, facts, flags, run_node
from tests.ranking.test_attribution import Chosen

STATE = {"case_id": "q", "answer": TWO_SENTENCES, "answer_evidence": ["1", "2", "3"]}
FIRST, SECOND = "Heparin was stopped on day 3.", "The platelet count had fallen to 40."
VECTORS = Chosen(
    **{FIRST: (1, 0, 0), SECOND: (0, 1, 0), NOTE[0]: (1, 0, 0), NOTE[1]: (0, 1, 0), NOTE[2]: (0, 0, 1)}
)


async def attribute(bench: Bench, **citation: Any) -> Any:
    recipe: dict[str, Any] = {"citation": {"method": "post_generation", **citation}}
    context = bench.context(system="heids", tools={VECTOR_TOOL: VECTORS}, **recipe)
    return await run_node(attribute_answer, STATE, context)


async def test_each_sentence_cites_what_is_like_it(bench: Bench) -> None:
    update = await attribute(bench)
    assert [line["text"] for line in update["answer_sentences"]] == [FIRST, SECOND]
    assert update["alignment"] == {"1": ["1"], "2": ["2"]}
    assert (update["aligned_answer"], update["evidence"]["threshold"]) == ("generated", ["1", "2"])
    assert facts(update)["best"]["1"] == 1.0


async def test_what_was_not_shown_is_never_cited(bench: Bench) -> None:
    context = bench.context(system="heids", tools={VECTOR_TOOL: VECTORS})
    update = await run_node(attribute_answer, {**STATE, "answer_evidence": ["2", "3"]}, context)
    assert {pair["id"] for pairs in update["attributions"].values() for pair in pairs} == {"2", "3"}


async def test_an_answer_that_nothing_is_like_cites_nothing_and_is_flagged(bench: Bench) -> None:
    update = await attribute(bench, threshold=1.0, weights={"lexical": 0, "fuzzy": 1, "semantic": 0})
    assert update["alignment"]["2"] == []
    assert flags(await attribute(bench, threshold=1.0)) == set()
    none = await run_node(
        attribute_answer, {**STATE, "answer": "Zzz.", "answer_evidence": ["3"]}, bench.context(system="heids")
    )
    assert (none["evidence"]["threshold"], flags(none)) == ([], {"no_citations"})


async def test_a_citation_stands_in_note_order(bench: Bench) -> None:
    update = await attribute(bench, threshold=0.0)
    assert update["alignment"]["2"] == ["1", "2", "3"]
    assert update["attributions"]["2"][0]["id"] == "2"


async def test_scores_of_a_long_list_are_kept_for_the_likeliest(bench: Bench) -> None:
    long = case(note=["x"] * 99 + [FIRST])
    state = {"case_id": "q", "answer": FIRST, "answer_evidence": list(long.sentence_ids)}
    update = await run_node(attribute_answer, state, bench.context(long, system="heids"))
    assert len(update["attributions"]["1"]) == 60
    assert update["attributions"]["1"][0]["id"] == "100"


PAIRS = st.lists(st.tuples(*[st.integers(0, 10_000)] * 3), min_size=1, max_size=8)


@given(PAIRS, st.floats(0, 1), st.floats(0, 1))
def test_a_higher_threshold_cites_fewer_of_the_same(
    parts: list[tuple[int, int, int]], one: float, other: float
) -> None:
    pairs = [
        Attribution(id=str(place), lexical=a / 10_000, fuzzy=b / 10_000, semantic=c / 10_000)
        for place, (a, b, c) in enumerate(parts)
    ]
    low, high = sorted((one, other))
    few, many = (cited_at({"1": pairs}, Weights(), threshold)["1"] for threshold in (high, low))
    assert set(few) <= set(many)


@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.9])
async def test_the_kept_scores_give_the_citations_of_the_run(bench: Bench, threshold: float) -> None:
    update = await attribute(bench, threshold=threshold)
    again = cited_at(update["attributions"], Weights(), threshold)
    assert {id_: sorted(ids) for id_, ids in again.items()} == update["alignment"]
