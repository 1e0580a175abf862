"""What goes wrong where several runners share a run: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import signal
import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest

from serving.postgres import schema
from serving.postgres.address import StoreError, parse_store
from serving.postgres.link import Link
from tests.store.runners import CALLS_OF_A_RUN, MOST_AWAY, Bench

if TYPE_CHECKING:
    from serving.postgres.link import Connection

pytestmark = pytest.mark.scale

SOME = 40
"""Calls after which something goes wrong: cases have ended, others are in all their nodes, most wait."""


@pytest.mark.parametrize("number", [2, 4])
def test_runners_that_are_started_at_once_share_an_empty_database(bench: Bench, number: int) -> None:
    runners = [bench.start(f"runner-{one}") for one in range(number)]
    assert [runner.wait() for runner in runners] == [0] * number
    bench.demand_whole(*runners)
    ran = bench.query("SELECT holder, COUNT(*) FROM cases GROUP BY 1")
    assert sum(int(str(count)) for _, count in ran) == 24
    assert bench.query("SELECT COUNT(*) FROM sessions") == [(number,)]


def test_the_cases_of_a_killed_runner_are_taken_over(bench: Bench) -> None:
    first = bench.start("first", "--lease", "1")
    bench.until_asked(SOME)
    first.send(signal.SIGKILL)
    first.wait()
    lost = bench.asked.total() - bench.stored
    assert 0 <= lost <= MOST_AWAY
    second = bench.start("second", "--lease", "1")
    assert second.wait() == 0
    bench.demand_whole(second, twice=lost)
    # The folder of the killed one goes on from the database, without a call.
    assert bench.start("first", command="resume").wait() == 0
    bench.demand_whole(first, second, twice=lost)


def test_a_runner_that_hangs_loses_its_cases_and_changes_nothing_when_it_wakes(bench: Bench) -> None:
    hanging = bench.start("hanging", "--lease", "1")
    bench.until_asked(SOME)
    hanging.send(signal.SIGSTOP)
    time.sleep(0.2)
    lost = bench.asked.total() - bench.stored
    held = bench.query("SELECT position, fence FROM cases WHERE state = 'open' AND fence IS NOT NULL")
    assert held
    other = bench.start("other", "--lease", "1")
    assert other.wait() == 0
    before = bench.query("SELECT position, fence, state, md5(line), md5(trace) FROM cases ORDER BY 1")
    taken = [row for row in before if (row[0], row[1]) in held]
    assert not taken
    hanging.send(signal.SIGCONT)
    assert hanging.wait() == 0
    assert bench.query("SELECT position, fence, state, md5(line), md5(trace) FROM cases ORDER BY 1") == before
    assert "another runner has taken it over" in hanging.said
    bench.demand_whole(hanging, other, twice=lost, about_to_ask=MOST_AWAY - lost)


def test_a_restart_of_the_database_costs_nothing(bench: Bench) -> None:
    runners = [bench.start("first"), bench.start("second")]
    bench.until_asked(SOME)
    bench.server.stop()
    time.sleep(1.0)
    bench.server.start()
    assert [runner.wait() for runner in runners] == [0, 0]
    assert any("trying again for 120 s" in runner.said for runner in runners)
    bench.demand_whole(*runners)


def test_a_database_that_stays_away_ends_the_session_and_the_run_goes_on_later(bench: Bench) -> None:
    runner = bench.start("run", "--max-outage", "1")
    bench.until_asked(SOME)
    bench.server.stop()
    try:
        assert runner.wait() == 1
    finally:
        bench.server.start()
    assert "for 1 s; all that is known is kept, go on with: evigraph resume run" in runner.said
    assert "Traceback" not in runner.said
    lost = bench.asked.total() - bench.stored
    assert 0 <= lost <= MOST_AWAY
    assert bench.start("run", "--lease", "1", command="resume").wait() == 0
    bench.demand_whole(runner, twice=lost)


def test_a_database_that_hangs_is_waited_for_and_costs_nothing(bench: Bench) -> None:
    runner = bench.start("run", "--max-outage", "20", "--lease", "2")
    bench.until_asked(SOME)
    bench.server.hang()
    try:
        bench.until(lambda: "the server does not answer; trying again for 20 s" in runner.said)
    finally:
        bench.server.wake()
    assert runner.wait() == 0
    bench.demand_whole(runner)


def test_what_a_hanging_database_was_sent_changes_nothing_when_it_wakes(bench: Bench) -> None:
    first = bench.start("first", "--max-outage", "3", "--lease", "2")
    bench.until_asked(SOME)
    bench.server.hang()
    try:
        assert first.wait() == 1
    finally:
        bench.server.wake()
    assert "the server does not answer for 3 s; all that is known is kept" in first.said
    assert "Traceback" not in first.said
    # What was sent lands now, beside the runner that takes over.
    second = bench.start("second", "--lease", "2")
    assert second.wait() == 0
    lost = bench.asked.total() - CALLS_OF_A_RUN
    assert 0 <= lost <= 2 * MOST_AWAY
    assert bench.start("first", "--lease", "2", command="resume").wait() == 0
    bench.demand_whole(first, second, twice=lost)


async def test_a_statement_that_takes_long_on_a_server_that_answers_is_waited_for(bench: Bench) -> None:
    said: list[str] = []
    link = Link(parse_store(bench.server.url(bench.database)), 1.0, said.append)

    async def sleep(connection: Connection) -> str:
        (found,) = await (await connection.execute("SELECT 'awake', pg_sleep(4)")).fetchall()
        return str(found[0])

    assert await link.do(sleep) == "awake"
    await link.close()
    assert [line.partition(": ")[2] for line in said] == ["a statement takes long; the server answers"]


def test_making_the_tables_does_not_wait_for_a_server_that_hangs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "ANSWER_S", 0.5)
    address = parse_store(f"{bench.server.url(bench.database)}?connect_timeout=2")
    begin = schema._cut_in_silence

    def hang_first(*given: Any) -> AbstractContextManager[None]:
        bench.server.hang()
        return begin(*given)

    monkeypatch.setattr(schema, "_cut_in_silence", hang_first)
    try:
        with pytest.raises(StoreError):
            schema.migrate(address)
    finally:
        bench.server.wake()


@pytest.mark.parametrize(("code", "waits"), [("53100", True), ("42501", False)])
def test_a_database_that_refuses_to_write(bench: Bench, code: str, waits: bool) -> None:
    runner = bench.start("run", "--max-outage", "2", "--lease", "1")
    bench.until_asked(SOME)
    bench.query(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$BEGIN RAISE EXCEPTION 'no room for it' USING ERRCODE = '{code}'; END$$"
    )
    bench.query("CREATE TRIGGER no_room BEFORE INSERT ON calls FOR EACH STATEMENT EXECUTE FUNCTION refuse()")
    assert runner.wait() == 1
    assert ("no room for it for 2 s" if waits else "no room for it; all") in runner.said
    lost = bench.asked.total() - bench.stored
    bench.query("DROP TRIGGER no_room ON calls")
    assert bench.start("run", "--lease", "1", command="resume").wait() == 0
    bench.demand_whole(runner, twice=lost)


def test_a_runner_that_is_asked_to_stop_gives_its_cases_back_at_once(bench: Bench) -> None:
    first = bench.start("first", "--lease", "600")
    bench.until_asked(SOME)
    first.send(signal.SIGTERM)
    assert first.wait() == 130
    lost = bench.asked.total() - bench.stored
    assert bench.query("SELECT COUNT(*) FROM cases WHERE state = 'open' AND expires IS NOT NULL") == [(0,)]
    second = bench.start("second", "--lease", "600")
    assert second.wait() == 0
    bench.demand_whole(second, twice=lost)
    assert bench.asked.total() <= CALLS_OF_A_RUN + MOST_AWAY
