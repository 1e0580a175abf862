"""Servers that are killed and come back, with and without another one."""

from __future__ import annotations

import signal
import time
from collections import Counter

from tests.evigraph import Started
from tests.faults import acts
from tests.faults.bench import Bench
from tests.faults.conftest import StartServer
from tests.faults.faulty_server import Exchange, Fault, FaultyServer


def both(one: FaultyServer, two: FaultyServer) -> str:
    return f"{one.model},{two.url}"


def test_a_killed_server_that_returns(bench: Bench, start_server: StartServer) -> None:
    server = start_server(fault=Fault(acts.killed_for(2.0)), after=40, times=1)
    bench.outage = 60
    ended = bench.do("run", server.model)
    bench.check_all_done(ended, server)
    assert f"{server.url} is away: " in ended.err
    assert f"{server.url} is back after " in ended.err


def test_a_server_that_is_away_for_too_long(bench: Bench, start_server: StartServer) -> None:
    async def killed(exchange: Exchange) -> None:
        exchange.server.die()

    server = start_server(fault=Fault(killed), after=40, times=1)
    ended = bench.do("run", server.model)
    bench.check_summary(ended)
    bench.check_calls(server)
    assert set(ended.summary["errors"]) == {"connection"}
    assert all(f"{server.url}: away for more than 1 s: " in message for message in bench.messages())
    server.wake()
    bench.check_all_done(bench.do("retry", server.model), server)


def return_beside(one: FaultyServer, two: FaultyServer) -> None:
    """Have a server come back after ten requests to another, which then waits until somebody has seen it."""

    def return_() -> None:
        # However fast or slow the machine is, most of the batch is left when the first one is found back.
        two.hold()
        one.when_seen = two.release
        one.wake()

    two.when_asked = two.asked + 10, return_


def test_a_killed_server_is_used_again_beside_another(bench: Bench, start_server: StartServer) -> None:
    async def killed(exchange: Exchange) -> None:
        exchange.server.die()
        before.update(one.answered)
        return_beside(one, two)

    before: Counter[str] = Counter()
    one, two = start_server(fault=Fault(killed), after=20, times=1, think=0.1), start_server(think=0.1)
    bench.timeout = 120
    ended = bench.do("run", both(one, two))
    bench.check_all_done(ended, one, two)
    assert one.broken == 1
    assert one.answered.total() > before.total() > 0, "it was used again"
    assert two.answered


def test_a_server_that_is_down_at_the_start_is_used_later(bench: Bench, start_server: StartServer) -> None:
    one, two = start_server(), start_server()
    one.sleep()
    return_beside(one, two)
    bench.timeout = 120
    ended = bench.do("run", both(one, two))
    bench.check_all_done(ended, one, two)
    assert f"{one.url} does not answer; it is used once it does" in ended.err
    assert one.answered


def test_an_engine_that_hangs_beside_another_holds_up_no_case(
    bench: Bench, start_server: StartServer
) -> None:
    one, two = start_server(fault=Fault(acts.hang), after=20), start_server()
    ended = bench.do("run", both(one, two))
    bench.check_all_done(ended, one, two)
    assert one.broken > 0


def test_a_run_that_is_interrupted_while_its_server_hangs_is_resumed(
    bench: Bench, start_server: StartServer
) -> None:
    server = start_server(fault=Fault(acts.hang, "all"), after=40)
    bench.timeout = 600
    process = Started(*bench.arguments("run", server.model), folder=bench.folder)
    deadline = time.monotonic() + 120
    while server.broken < 4:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 130
    server.repair()
    bench.check_all_done(bench.do("resume", server.model), server)
