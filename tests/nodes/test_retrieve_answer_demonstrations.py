from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodes.core.records import IntentChoice
from nodes.retrieval.retrieve_answer_demonstrations import retrieve_answer_demonstrations
from retrieval.pools.pool import DemonstrationPool
from tests.nodes.builders import (
    NEAREST_FIRST,
    POOL,
    PRIMARY,
    SECONDARY,
    Bench,
    ChosenSimilarities,
    case,
    gold,
    pool_of,
    run_node,
)

SIMILARITIES = {"c1": 0.70, "c2": 0.90, "c3": 0.95, "c4": 0.60, "c5": 0.99}
INTENTS = {"c1": PRIMARY, "c2": PRIMARY, "c3": SECONDARY, "c4": SECONDARY, "c5": "treatment_plan"}
STATE = {"case_id": "q", "intent": {"primary": PRIMARY, "secondary": SECONDARY, "risk_level": "low"}}


@pytest.fixture
async def vector_pool(tmp_path: Path) -> DemonstrationPool:
    cases = [case(id_, narrative=f"I am {id_}", gold=gold(name)) for id_, name in INTENTS.items()]
    return await pool_of(tmp_path, *cases, embedder=ChosenSimilarities(SIMILARITIES))


async def choose(
    bench: Bench, pool: DemonstrationPool, secondary: str | None, primary: str | None = PRIMARY, **answer: Any
) -> list[tuple[str, str]]:
    intent = IntentChoice(primary=primary, secondary=secondary, risk_level="low")
    state = {"case_id": "q", "intent": intent}
    update = await run_node(retrieve_answer_demonstrations, state, bench.context(pool=pool, answer=answer))
    return [(one["case_id"], one["tier"]) for one in update["answer_demonstrations"]]


async def test_tiered_fills_from_the_primary_then_the_secondary(
    bench: Bench, vector_pool: DemonstrationPool
) -> None:
    found = await choose(bench, vector_pool, SECONDARY)
    assert found == [("c2", "primary"), ("c1", "primary"), ("c3", "secondary")]


async def test_union_ranks_both_intents_together(bench: Bench, vector_pool: DemonstrationPool) -> None:
    found = await choose(bench, vector_pool, SECONDARY, selection="union")
    assert found == [("c3", "secondary"), ("c2", "primary"), ("c1", "primary")]


async def test_union_may_leave_out_the_primary(bench: Bench, tmp_path: Path) -> None:
    intents = {"far": PRIMARY, "near": SECONDARY, "next": SECONDARY}
    cases = [case(id_, narrative=f"I am {id_}", gold=gold(name)) for id_, name in intents.items()]
    similarities = ChosenSimilarities({"far": 0.5, "near": 0.9, "next": 0.8})
    pool = await pool_of(tmp_path, *cases, embedder=similarities)
    found = await choose(bench, pool, SECONDARY, selection="union", demonstrations=2)
    assert found == [("near", "secondary"), ("next", "secondary")]


@pytest.mark.parametrize("selection", ["tiered", "union"])
async def test_without_secondary_similarity_fills(
    bench: Bench, vector_pool: DemonstrationPool, selection: str
) -> None:
    found = await choose(bench, vector_pool, None, selection=selection)
    assert found == [("c2", "primary"), ("c1", "primary"), ("c5", "fill")]


async def test_enough_of_the_primary_leaves_the_secondary_out(
    bench: Bench, vector_pool: DemonstrationPool
) -> None:
    found = await choose(bench, vector_pool, SECONDARY, selection="union", demonstrations=2)
    assert found == [("c2", "primary"), ("c1", "primary")]


async def test_tiers_too_small_are_filled_by_similarity(bench: Bench, vector_pool: DemonstrationPool) -> None:
    found = await choose(bench, vector_pool, SECONDARY, demonstrations=5)
    assert [id_ for id_, _ in found] == ["c2", "c1", "c3", "c4", "c5"]
    assert found[-1] == ("c5", "fill")


async def test_similarity_looks_at_no_intent(bench: Bench, vector_pool: DemonstrationPool) -> None:
    found = await choose(bench, vector_pool, SECONDARY, selection="similarity")
    assert found == [("c5", "similarity"), ("c3", "similarity"), ("c2", "similarity")]


async def test_an_open_primary_leaves_similarity(bench: Bench, vector_pool: DemonstrationPool) -> None:
    found = await choose(bench, vector_pool, None, primary=None)
    assert found == [("c5", "similarity"), ("c3", "similarity"), ("c2", "similarity")]


async def test_more_than_the_pool_has_is_the_whole_pool(bench: Bench, vector_pool: DemonstrationPool) -> None:
    assert len(await choose(bench, vector_pool, SECONDARY, demonstrations=50)) == len(SIMILARITIES)


async def chosen(bench: Bench, *cases: Any, state: dict[str, Any] | None = None, **options: Any) -> list[str]:
    context = bench.context(*cases, **options)
    update = await run_node(retrieve_answer_demonstrations, {**STATE, **(state or {})}, context)
    return [one["case_id"] for one in update["answer_demonstrations"]]


async def test_the_node_lists_them_in_the_order_of_choice(bench: Bench) -> None:
    assert await chosen(bench) == NEAREST_FIRST[:3]


async def test_no_demonstrations_are_wanted(bench: Bench) -> None:
    assert await chosen(bench, answer={"demonstrations": 0}) == []


async def test_the_case_itself_is_never_shown(bench: Bench) -> None:
    assert await chosen(bench, POOL[3], state={"case_id": "p4"}) == ["p3", "p2", "p1"]


async def test_a_case_without_clinician_question_under_another_id_is_never_shown(
    bench: Bench, tmp_path: Path
) -> None:
    pool = await pool_of(tmp_path, case("twin", question="", gold=gold()), *POOL)
    state = {"patient_question": "why was it stopped"}
    assert "twin" not in await chosen(bench, case("q", question=""), state=state, pool=pool)


async def test_held_out_cases_are_never_shown(bench: Bench) -> None:
    assert await chosen(bench, held_out=["p3"]) == ["p4", "p2", "p1"]


async def test_a_case_without_answer_shows_no_answering(bench: Bench, tmp_path: Path) -> None:
    pool = await pool_of(
        tmp_path, case("unanswered", narrative="A drip.", gold=gold(answered=False)), POOL[0]
    )
    assert await chosen(bench, pool=pool) == ["p1"]
