"""The benchmark of a call, as small as it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.bench.postgres_server import PostgresServer
from tests.evigraph import evigraph

pytestmark = pytest.mark.scale


def test_a_ratio_follows_from_its_printed_parts(server: PostgresServer, tmp_path: Path) -> None:
    # The server of the tests shows that there is one to be had; the benchmark starts its own.
    given = evigraph("bench", "store", "--tiny", "--json", folder=tmp_path, timeout=900).summary
    parts = given["numerator"]["value"] / given["denominator"]["value"]
    assert given["ratio"] == pytest.approx(parts, rel=0.01)
    assert given["details"]["calls"] == 24
    assert given["details"]["server_us_a_call"] >= 0
