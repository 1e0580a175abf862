from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.bench import Bench
from tests.faults.faulty_server import FaultyServer

StartServer = Callable[..., FaultyServer]
Scenario = Callable[[str, Bench, StartServer], None]
Outcomes = dict[str, "Future[None]"]

AT_ONCE = 4
"""Scenarios side by side: they mostly wait, for time limits and for pauses."""


def _starter(stack: ExitStack) -> StartServer:
    def start(**settings: Any) -> FaultyServer:
        server = FaultyServer(**settings)
        server.start()
        stack.callback(server.stop)
        return server

    return start


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    with ExitStack() as stack:
        yield _starter(stack)


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcomes]:
    """The selected scenarios of a module, run side by side; a test requests its own result."""
    scenario: Scenario = request.module.scenario
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    names = [str(item.callspec.params["name"]) for item in items if item.module is request.module]

    def play(name: str, folder: Path) -> None:
        with ExitStack() as stack:
            scenario(name, Bench(folder), _starter(stack))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {name: pool.submit(play, name, tmp_path_factory.mktemp("fault")) for name in names}
