"""A server that is faulty from the start: one line, exit code 2, and nothing begun."""

from __future__ import annotations

import pytest

from tests.faults import acts
from tests.faults.bench import Bench
from tests.faults.conftest import Outcomes, StartServer
from tests.faults.faulty_server import Fault

START = {"hangs": acts.hang, "slow loris": acts.slow_loris, "flood": acts.flood}


def scenario(name: str, bench: Bench, start_server: StartServer) -> None:
    server = start_server(fault=Fault(START[name], "all"))
    ended = bench.do("run", server.model)
    assert (ended.code, ended.out) == (2, "")
    assert f"cannot reach {server.url}/models" in ended.line
    assert not (bench.folder / "out").exists()


@pytest.mark.parametrize("name", START)
def test_server_that_never_lists_its_models(name: str, outcomes: Outcomes) -> None:
    outcomes[name].result()
