from __future__ import annotations

from pathlib import Path
from typing import Any

from nodes.retrieval.retrieve_evidence_demonstrations import retrieve_evidence_demonstrations
from tests.nodes.builders import NEAREST_FIRST, POOL, SECONDARY, Bench, case, facts, gold, pool_of, run_node

STATE = {"case_id": "q"}


async def chosen(bench: Bench, *cases: Any, state: dict[str, Any] | None = None, **options: Any) -> list[str]:
    context = bench.context(*cases, **options)
    update = await run_node(retrieve_evidence_demonstrations, {**STATE, **(state or {})}, context)
    return [one["case_id"] for one in update["evidence_demonstrations"]]


async def test_the_nearest_come_first(bench: Bench) -> None:
    assert await chosen(bench) == NEAREST_FIRST


async def test_no_more_than_the_recipe_wants(bench: Bench) -> None:
    assert await chosen(bench, evidence={"demonstrations": 2}) == NEAREST_FIRST[:2]


async def test_no_demonstrations_are_wanted(bench: Bench) -> None:
    assert await chosen(bench, evidence={"demonstrations": 0}) == []


async def test_only_listed_demonstrations_are_shown(bench: Bench) -> None:
    listed = sorted(NEAREST_FIRST[1:])
    found = await chosen(bench, evidence={"demonstrations_from": listed})
    assert found == [id_ for id_ in NEAREST_FIRST if id_ in listed]


async def test_a_listed_case_is_not_shown_to_itself(bench: Bench) -> None:
    evidence = {"demonstrations_from": ["p4", "p2"]}
    assert await chosen(bench, POOL[3], state={"case_id": "p4"}, evidence=evidence) == ["p2"]


async def test_intent_aware_takes_the_intents_own_first(bench: Bench) -> None:
    state = {"intent": {"primary": SECONDARY, "secondary": None, "risk_level": "low"}}
    context = bench.context(evidence={"intent_aware": True, "demonstrations": 2})
    update = await run_node(retrieve_evidence_demonstrations, {**STATE, **state}, context)
    tiers = [(one["case_id"], one["tier"]) for one in update["evidence_demonstrations"]]
    assert tiers == [("p2", "primary"), ("p4", "fill")]


async def test_without_intent_awareness_the_intent_is_not_read(bench: Bench) -> None:
    state = {"intent": {"primary": SECONDARY, "secondary": None, "risk_level": "low"}}
    assert await chosen(bench, state=state) == NEAREST_FIRST


async def test_an_open_intent_leaves_similarity(bench: Bench) -> None:
    state = {"intent": {"primary": None, "secondary": None, "risk_level": "low"}}
    assert await chosen(bench, state=state, evidence={"intent_aware": True}) == NEAREST_FIRST


async def test_the_case_itself_is_never_shown(bench: Bench) -> None:
    assert "p4" not in await chosen(bench, POOL[3], state={"case_id": "p4"})


async def test_the_case_under_another_id_is_never_shown(bench: Bench) -> None:
    twin = case("q", narrative=f" {POOL[3].narrative.upper()}\n", question=POOL[3].question)
    assert "p4" not in await chosen(bench, twin)


async def test_a_case_without_clinician_question_under_another_id_is_never_shown(
    bench: Bench, tmp_path: Path
) -> None:
    twin = case("twin", question="", gold=gold())
    pool = await pool_of(tmp_path, twin, *POOL)
    state = {"patient_question": "why was it stopped"}
    assert "twin" not in await chosen(bench, case("q", question=""), state=state, pool=pool)


async def test_held_out_cases_are_never_shown(bench: Bench) -> None:
    assert await chosen(bench, held_out=["p4", "p2"]) == ["p3", "p1"]


async def test_the_excluded_are_reported(bench: Bench) -> None:
    update = await run_node(retrieve_evidence_demonstrations, STATE, bench.context(held_out=["p4"]))
    assert facts(update)["excluded"] == ["p4", "q"]


async def test_a_case_without_labels_shows_no_labelling(bench: Bench, tmp_path: Path) -> None:
    pool = await pool_of(
        tmp_path, case("unlabelled", narrative="A drip.", gold=gold(labelled=False)), POOL[0]
    )
    assert await chosen(bench, pool=pool) == ["p1"]
