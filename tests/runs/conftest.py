from __future__ import annotations

from pathlib import Path

import pytest

from tests.evigraph import write_cases, write_recipe


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return write_recipe(tmp_path)


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    return write_cases(tmp_path / "cases.jsonl", 6)
