from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.services import Client, Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def client(place: Place) -> Iterator[Client]:
    with place.client() as client:
        yield client
