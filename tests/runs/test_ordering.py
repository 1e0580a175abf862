"""Cases of the same demonstrations follow one another, and nothing else depends on it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cases.records import Case, InvalidCase
from graph.tamu import SYSTEM, TamuRecipe
from nodes.core.context import Context
from nodes.evidence import label_evidence
from nodes.evidence.label_evidence import CaseKey, CaseKeys
from nodes.retrieval.demonstration_search import POOL as POOL_TOOL
from nodes.retrieval.retrieve_evidence_demonstrations import retrieve_evidence_demonstrations
from prompts import load_prompts
from ranking.encoding.vectors import Vectors
from retrieval.embeddings import LexicalEmbedder
from retrieval.pools.folder import build_pool
from retrieval.pools.pool import DemonstrationPool
from runs.execute import ordering
from runs.execute.ordering import AnyCase, OrderedCases
from serving.journal.journal import Journal
from serving.protocol.errors import CallError
from serving.requests.client import ModelClient
from tests.nodes.builders import POOL, case, gold, pool_of, run_node

ONE = TamuRecipe.model_validate({"evidence": {"demonstrations": 1}})
TOPICS = ("My knee swells.", "My platelet count fell.", "My drip was stopped.")


def demonstration_keys(pool: DemonstrationPool | None, recipe: TamuRecipe) -> CaseKeys | None:
    """As the node that labels declares it."""
    return label_evidence.demonstration_keys(recipe, {} if pool is None else {POOL_TOOL.name: pool})


def topical(number: int) -> Case:
    """Cases whose nearest demonstration changes with each."""
    return case(f"q{number}", narrative=TOPICS[number % 3], question="", gold=gold())


class CountingEmbedder(LexicalEmbedder):
    """Keeps what it was asked for; fails where the test asks for it."""

    def __init__(self, broken: bool = False) -> None:
        super().__init__(256)
        self.batches: list[list[str]] = []
        self.broken = broken

    async def aembed(self, texts: Sequence[str]) -> Vectors:
        if self.broken:
            raise CallError("connection", "the embedder is gone")
        self.batches.append(list(texts))
        return await super().aembed(texts)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "calls.sqlite")
    yield journal
    journal.close()


async def taken(ordered: OrderedCases) -> list[str]:
    try:
        return [one.id async for one in ordered]
    finally:
        await ordered.aclose()


async def by_length(cases: Sequence[Case]) -> list[CaseKey]:
    return [(f"{len(one.narrative):09}",) for one in cases]


async def test_cases_of_the_same_demonstrations_follow_one_another(tmp_path: Path) -> None:
    pool = await pool_of(tmp_path, *POOL[:3])
    ordered = OrderedCases(iter([topical(n) for n in range(9)]), demonstration_keys(pool, ONE), 64)
    assert await taken(ordered) == ["q0", "q3", "q6", "q1", "q4", "q7", "q2", "q5", "q8"]


async def test_the_key_is_what_the_node_chooses(journal: Journal, tmp_path: Path) -> None:
    pool = await pool_of(tmp_path, *POOL)
    recipe = TamuRecipe.model_validate({"evidence": {"demonstrations": 2}, "held_out": ["p3"]})
    keys = demonstration_keys(pool, recipe)
    assert keys is not None
    cases = [topical(1), case(), POOL[0]]
    for one, key in zip(cases, await keys(cases), strict=True):
        context = Context(
            cases={one.id: one},
            client=ModelClient({}, journal),
            prompts=load_prompts("default", SYSTEM.contracts),
            settings=recipe,
            tools={POOL_TOOL.name: pool},
        )
        asked = one.question or one.narrative.rstrip()
        update = await run_node(
            retrieve_evidence_demonstrations, {"case_id": one.id, "patient_question": asked}, context
        )
        assert key == tuple(sorted(shown["case_id"] for shown in update["evidence_demonstrations"]))


async def test_a_windows_texts_are_embedded_once_and_together(tmp_path: Path) -> None:
    await build_pool(tmp_path / "pool", POOL, LexicalEmbedder(256))
    embedder = CountingEmbedder()
    pool = DemonstrationPool(tmp_path / "pool", embedder)
    cases = [case(f"q{n}", narrative=f"Drip {n}.") for n in range(20)]
    await taken(OrderedCases(iter(cases), demonstration_keys(pool, ONE), 64))
    for one in cases:
        await pool.nearest("evidence", f"{one.question} {one.narrative}", 1)
    assert [len(batch) for batch in embedder.batches] == [20]


async def test_a_failing_embedder_leaves_the_input_order(tmp_path: Path) -> None:
    await build_pool(tmp_path / "pool", POOL, LexicalEmbedder(256))
    pool = DemonstrationPool(tmp_path / "pool", CountingEmbedder(broken=True))
    ordered = OrderedCases(iter([topical(n) for n in range(6)]), demonstration_keys(pool, ONE), 64)
    assert await taken(ordered) == [f"q{n}" for n in range(6)]


async def test_invalid_cases_keep_their_places() -> None:
    cases: list[AnyCase] = [
        case("long", narrative="aaaa"),
        InvalidCase("broken", "no sentences"),
        case("short", narrative="a"),
    ]
    assert await taken(OrderedCases(iter(cases), by_length, 64)) == ["short", "broken", "long"]


async def test_cases_are_read_two_windows_ahead_at_most() -> None:
    read = 0

    def source() -> Iterator[AnyCase]:
        nonlocal read
        for number in range(100):
            read += 1
            yield case(f"q{number}")

    ordered = OrderedCases(source(), by_length, 5)
    for number in range(1, 101):
        await anext(ordered)
        assert read <= number + 2 * 5
    await ordered.aclose()


async def test_a_slow_embedder_does_not_delay_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "PATIENCE_S", 0.01)
    ready = asyncio.Event()

    async def late(cases: Sequence[Case]) -> list[CaseKey]:
        await ready.wait()
        return await by_length(cases)

    cases = [case(f"q{n}", narrative="a" * (9 - n)) for n in range(5)]
    ordered = OrderedCases(iter(cases), late, 64)
    first = await anext(ordered)
    ready.set()
    assert ordered._now is not None
    await asyncio.wait({ordered._now.sorting})
    assert [first.id, *await taken(ordered)] == ["q0", "q4", "q3", "q2", "q1"]


async def test_many_workers_share_the_windows() -> None:
    ordered = OrderedCases(iter([case(f"q{n}") for n in range(50)]), by_length, 8)
    shares = await asyncio.gather(*(taken(ordered) for _ in range(7)))
    assert sorted(id_ for share in shares for id_ in share) == sorted(f"q{n}" for n in range(50))


@pytest.mark.parametrize(
    "evidence", [{"demonstrations": 0}, {"intent_aware": True}, {"order": "similar_last"}]
)
async def test_no_order_is_made_where_it_cannot_help(evidence: dict[str, object], tmp_path: Path) -> None:
    pool = await pool_of(tmp_path, *POOL)
    assert demonstration_keys(pool, TamuRecipe.model_validate({"evidence": evidence})) is None
    assert demonstration_keys(None, TamuRecipe()) is None
