from __future__ import annotations

import pytest

from nodes.answer.choose_answer_evidence import choose_answer_evidence
from nodes.answer.widen_evidence import next_best, widen_evidence
from tests.nodes.builders import Bench, flags, run_node

EVIDENCE = {"threshold": ["1", "2"], "high_recall": ["1", "2", "3"], "low_recall": ["1"]}


@pytest.mark.parametrize("setting", EVIDENCE)
async def test_the_recipe_names_the_evidence(bench: Bench, setting: str) -> None:
    context = bench.context(answer={"evidence": setting})
    update = await run_node(choose_answer_evidence, {"evidence": EVIDENCE}, context)
    assert update["answer_evidence"] == EVIDENCE[setting]


@pytest.mark.parametrize(
    ("counts", "best"),
    [({"1": 0, "2": 2, "3": 2}, ["2", "3"]), ({"1": 1, "2": 2}, ["2"]), ({"1": 0}, []), ({}, [])],
)
def test_the_next_best_are_those_with_most_votes(counts: dict[str, int], best: list[str]) -> None:
    assert next_best(counts) == best


async def test_widening_is_flagged(bench: Bench) -> None:
    update = await run_node(widen_evidence, {"vote_counts": {"1": 0, "2": 1}}, bench.context())
    assert update["answer_evidence"] == ["2"]
    assert flags(update) == {"widened_evidence"}


async def test_without_any_vote_the_note_stands_alone(bench: Bench) -> None:
    update = await run_node(widen_evidence, {"vote_counts": {"1": 0, "2": 0}}, bench.context())
    assert update["answer_evidence"] == []
    assert "the whole note" in update["decisions"][0]["because"]
