from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from retrieval.embeddings import connect_embedder
from retrieval.pools.folder import build_pool
from retrieval.pools.pool import DemonstrationPool
from tests.nodes.builders import POOL


@pytest.fixture
def pool(tmp_path: Path) -> DemonstrationPool:
    embedder = connect_embedder("lexical:256")
    asyncio.run(build_pool(tmp_path / "pool", POOL, embedder))
    return DemonstrationPool(tmp_path / "pool", embedder)
