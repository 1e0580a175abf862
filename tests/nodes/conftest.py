"""A context factory with a real journal and one real pool for the whole session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from retrieval.embeddings import connect_embedder
from retrieval.pools.folder import build_pool
from retrieval.pools.pool import DemonstrationPool
from tests.nodes.builders import POOL, Bench


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> DemonstrationPool:
    folder = tmp_path_factory.mktemp("demonstrations") / "pool"
    embedder = connect_embedder("lexical:256")
    asyncio.run(build_pool(folder, POOL, embedder))
    return DemonstrationPool(folder, embedder)


@pytest.fixture
def bench(tmp_path: Path, pool: DemonstrationPool) -> Iterator[Bench]:
    made = Bench(tmp_path, pool)
    yield made
    made.close()
