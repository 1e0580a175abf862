"""Runs whose models answer in batches come to what the same runs come to online, and pay for no more."""

from __future__ import annotations

from tests.runs.batched.account import Account
from tests.runs.batched.conftest import Runs


def test_a_run_in_batches_ends_as_one_online_and_pays_for_as_many_calls(runs: Runs, account: Account) -> None:
    online = runs.start(model="scripted:auto", out="online")
    run = runs.start()
    assert run.manifest.status == "finished" and run.manifest.counts.done == 4
    assert runs.results() == runs.results("online")
    (one,), (other,) = run.manifest.sessions, online.manifest.sessions
    assert (one.calls, one.replayed) == (other.calls, 0)
    assert set(account.paid.values()) == {1}
    # Intent and votes; reflections; the answer.
    assert [held.remote.requests for held in account.batches.values()] == [8, 12, 4]
    assert account.deleted == list(account.batches)
    assert runs.watcher.lines.count("batches: the account stores everything for ever") == 1
