"""Faults that pass: attempts that follow cure them, no case fails, nothing is paid for twice."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.faults import acts
from tests.faults.bench import Bench
from tests.faults.conftest import Outcomes, StartServer
from tests.faults.faulty_server import Fault

AFTER = 40
TIMES = 4
"""The first request of each connection that is under way meets the fault."""


class Passing(NamedTuple):
    act: acts.Act
    least_s: float = 0.0


PASSING = {
    "429, a second": Passing(acts.too_many("1"), 1.0),
    "429, a date": Passing(acts.too_many("date"), 1.0),
    "429, no word": Passing(acts.too_many(None)),
    "burst of 500": Passing(acts.internal_error),
    "reset in the body": Passing(acts.reset_in_the_body),
    "half a JSON": Passing(acts.half_a_json),
    "hangs": Passing(acts.hang),
}


def scenario(name: str, bench: Bench, start_server: StartServer) -> None:
    passing = PASSING[name]
    server = start_server(fault=Fault(passing.act), after=AFTER, times=TIMES)
    bench.retries = 3
    ended = bench.do("run", server.model)
    assert server.broken == TIMES
    assert (ended.code, ended.summary["failed"]) == (0, 0), ended.err
    bench.check_all_done(ended, server)
    # Times in the summary are whole seconds.
    assert ended.summary["seconds"] >= passing.least_s - 1


@pytest.mark.parametrize("name", PASSING)
def test_fault_that_passes(name: str, outcomes: Outcomes) -> None:
    outcomes[name].result()
