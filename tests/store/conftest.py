from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from evals.bench.postgres_server import PostgresServer, find_binaries, postgres_server
from tests.store.runners import Bench


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg", reason="needs evigraph[postgresql]")
    if find_binaries() is None:
        pytest.skip("PostgreSQL is not installed")
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def alone(server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A run of one machine in its folder, against which all others are held."""
    bench = Bench(tmp_path_factory.mktemp("alone"), server)
    assert bench.start("alone", store=False).wait() == 0
    return bench


@pytest.fixture
def bench(server: PostgresServer, alone: Bench, tmp_path: Path) -> Bench:
    """An empty database, and the cases that runners share in it."""
    return Bench(tmp_path, server, alone)
