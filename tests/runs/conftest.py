from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.evigraph import write_cases, write_recipe
from tests.serving.fake_server import MODEL, FakeServer, Obey


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return write_recipe(tmp_path)


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    return write_cases(tmp_path / "cases.jsonl", 6)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    server = FakeServer(models={"data": [{"id": MODEL, "max_model_len": 100_000}]}, default=Obey())
    server.start()
    yield server
    server.stop()
