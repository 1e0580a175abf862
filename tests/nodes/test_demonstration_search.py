from __future__ import annotations

from pathlib import Path

import pytest

from cases.records import Case
from graph.tamu import TamuRecipe
from nodes.retrieval import demonstration_search
from nodes.retrieval.demonstration_search import choose
from retrieval.pools.pool import DemonstrationPool
from tests.nodes.builders import NEAREST_FIRST, case, gold, pool_of

TEXT = "Why was heparin stopped? I was on a heparin drip and it was stopped."


async def found(
    pool: DemonstrationPool, wanted: int, *unfit: str, excluded: tuple[str, ...] = ()
) -> list[str]:
    def fits(one: Case) -> bool:
        return one.id not in unfit

    recipe = TamuRecipe(held_out=excluded)
    return (await choose(pool, case("q"), recipe, "evidence", TEXT, wanted, fits=fits)).ids


async def test_the_nearest_that_fit_are_found(pool: DemonstrationPool) -> None:
    assert await found(pool, 2) == NEAREST_FIRST[:2]
    assert await found(pool, 2, "p4") == NEAREST_FIRST[1:3]
    assert await found(pool, 1, "p4", "p3", "p2") == ["p1"]


async def test_excluded_cases_are_passed_over(pool: DemonstrationPool) -> None:
    assert await found(pool, 3, excluded=("p3",)) == ["p4", "p2", "p1"]


async def test_a_pool_with_too_few_gives_those(pool: DemonstrationPool) -> None:
    assert await found(pool, 9, "p1") == NEAREST_FIRST[:3]
    assert await found(pool, 2, *NEAREST_FIRST) == []


async def test_nothing_wanted_is_nothing_found(pool: DemonstrationPool) -> None:
    assert await found(pool, 0) == []


async def test_a_large_pool_is_not_read_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demonstration_search, "_MAX_LOOKED_AT", 16)
    pool = await pool_of(tmp_path, *(case(f"c{number}", gold=gold()) for number in range(40)))
    opened: list[str] = []

    def fits(one: Case) -> bool:
        opened.append(one.id)
        return False

    assert (
        await choose(pool, case("q", narrative="Mine."), TamuRecipe(), "answer", TEXT, 3, fits=fits)
    ).ids == []
    assert len(opened) == len(set(opened)) == 16
