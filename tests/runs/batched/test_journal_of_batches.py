"""What is away survives a repair, and leaves with a purge."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from runs.record.folder import CALLS, RunFolder
from runs.upkeep.away import away_batches
from runs.upkeep.check import check, repair_run
from runs.upkeep.purge import plan, purge
from serving.journal.purge import purge_calls
from serving.journal.tables import ROW_TEXT_COLUMNS, TEXT_COLUMNS
from serving.protocol.batch_provider import RowResult
from serving.protocol.errors import CallError
from tests.runs.batched.account import Account
from tests.runs.batched.conftest import Runs

ROWS = 24
"""Of 4 cases: intent and votes in two requests, three reflections, the answer."""


@pytest.fixture
def begun(runs: Runs, account: Account) -> Runs:
    """A run whose first round is answered but for a row that failed, and whose second is away."""

    def with_a_failure(rows: list[RowResult]) -> list[RowResult]:
        first = next(row for row in rows if len(row.answers) == 1)
        failed = RowResult(first.custom_id, failure=CallError("context_length", "too long"))
        return [failed if row is first else row for row in rows]

    runs.start(detach=True)
    account.results = with_a_failure
    runs.resume(detach=True)
    account.results = lambda rows: rows
    return runs


def executed(run: Path, sql: str, *values: object) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(run / CALLS)) as database, database:
        return database.execute(sql, values).fetchall()


def referenced(run: Path, table: str, names: Sequence[str]) -> set[int]:
    """Numbers of the texts that the rows of a table have."""
    rows = executed(run, f"SELECT prompt, {', '.join(names)} FROM {table}")
    return {
        int(str(one))
        for prompt, *others in rows
        for one in (*str(prompt).split(), *others)
        if one is not None
    }


def test_all_samples_of_a_request_reserve_its_prompt_once(runs: Runs) -> None:
    runs.start(detach=True)
    rows = executed(
        runs.folder / "run", "SELECT COUNT(*), SUM(most_read > 0) FROM batch_rows GROUP BY request"
    )
    assert {read for _, read in rows} == {1}
    assert {samples for samples, _ in rows} == {1, 3}


def test_a_repair_keeps_what_is_away_and_what_failed(begun: Runs) -> None:
    run = begun.folder / "run"
    before = away_batches(run)
    assert before.calls and before.failures == {"context_length": 1}
    executed(run, "UPDATE calls SET input_tokens = 1000000 WHERE key = (SELECT MIN(key) FROM calls)")
    assert check(RunFolder(run)).faults
    repair_run(run)
    after = away_batches(run)
    assert (after.calls, after.failures, after.rows) == (before.calls, before.failures, before.rows)


def test_a_repaired_run_pays_for_nothing_that_was_away(runs: Runs, account: Account) -> None:
    account.looks = 1
    runs.start(detach=True)
    for _ in range(2):
        runs.resume(detach=True)
    run = runs.folder / "run"
    assert away_batches(run).calls
    executed(run, "UPDATE calls SET input_tokens = 1000000 WHERE key = (SELECT MIN(key) FROM calls)")
    repair_run(run)
    runs.resume()
    assert runs.resume().manifest.counts.done == 4
    # The damaged reply alone is asked for again.
    assert sum(account.paid.values()) == ROWS + 1


def test_a_purge_takes_what_is_away_and_leaves_other_cases_theirs(begun: Runs) -> None:
    run = begun.folder / "run"
    others = "SELECT COUNT(*) FROM batch_rows WHERE case_id != 'k1'"
    before = executed(run, others)
    assert executed(run, "SELECT COUNT(*) FROM batch_rows WHERE case_id='k1'") != [(0,)]
    purge(RunFolder(run), plan(RunFolder(run), ["k1"]), {}, begun.watcher.notify)
    assert executed(run, "SELECT COUNT(*) FROM batch_rows WHERE case_id='k1'") == [(0,)]
    assert executed(run, others) == before != [(0,)]
    assert executed(run, "SELECT COUNT(*) FROM calls WHERE case_id='k1'") == [(0,)]
    kept = {number for (number,) in executed(run, "SELECT id FROM texts")}
    assert kept == referenced(run, "calls", TEXT_COLUMNS) | referenced(run, "batch_rows", ROW_TEXT_COLUMNS)


def test_a_purge_of_everything_leaves_no_row(begun: Runs) -> None:
    run = begun.folder / "run"
    assert away_batches(run).calls
    assert purge_calls(run / CALLS, None)[0]
    assert executed(run, "SELECT COUNT(*) FROM batch_rows UNION SELECT COUNT(*) FROM texts") == [(0,)]
